"""Tests of knet: a package, so that no installed package of the same name replaces it; spectralnet has one."""
