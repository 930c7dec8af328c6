"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const shorts = (text) => new Uint16Array(bytes(text).buffer);
  const labels = shorts(data.labels);
  const tip = document.getElementById("tip");
  const redraws = [];
  let chosen = null;

  const color = (cluster) => data.colors[cluster % data.colors.length];

  // Draw a point of a cluster: the colours repeat every eight clusters, with another shape.
  function mark(context, cluster, x, y, r) {
    const shape = Math.floor(cluster / data.colors.length) % 4;
    context.beginPath();
    if (shape === 0) context.arc(x, y, r, 0, 7);
    else if (shape === 1) { context.moveTo(x, y - r * 1.3); context.lineTo(x + r * 1.2, y + r); context.lineTo(x - r * 1.2, y + r); }
    else if (shape === 2) context.rect(x - r, y - r, 2 * r, 2 * r);
    else { context.moveTo(x, y - r * 1.4); context.lineTo(x + r * 1.4, y); context.lineTo(x, y + r * 1.4); context.lineTo(x - r * 1.4, y); }
    context.fill();
  }

  function fit(canvas) {
    const side = Math.max(50, Math.round(canvas.clientWidth * (window.devicePixelRatio || 1)));
    if (canvas.width !== side) { canvas.width = side; canvas.height = side; }
    return side;
  }

  function drawPoints(canvas, xy, owners, view) {
    const side = fit(canvas), context = canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
    const r = Math.max(1.2, Math.min(4, 90 / Math.sqrt(owners.length))) * ratio;
    context.clearRect(0, 0, side, side);
    for (const front of [false, true]) {
      for (let i = 0; i < owners.length; i++) {
        const lit = chosen === null || owners[i] === chosen;
        if (lit !== front) continue;
        context.fillStyle = lit ? color(owners[i]) : "#d5dadf";
        mark(context, owners[i], ...place(xy, i, view, side), r);
      }
    }
  }

  function place(xy, i, view, side) {
    const margin = 0.05, scale = (1 - 2 * margin) / 65535;
    const x = margin + xy[2 * i] * scale, y = 1 - margin - xy[2 * i + 1] * scale;
    return [((x - view.x) * view.zoom + 0.5) * side, ((y - view.y) * view.zoom + 0.5) * side];
  }

  function scatter(canvas) {
    const xy = shorts(data.views[canvas.dataset.view]);
    const view = { x: 0.5, y: 0.5, zoom: 1 };
    const draw = () => drawPoints(canvas, xy, labels, view);
    const zoom = (factor, px = 0.5, py = 0.5) => {
      const next = Math.min(200, Math.max(1, view.zoom * factor));
      view.x += (px - 0.5) / view.zoom - (px - 0.5) / next;
      view.y += (py - 0.5) / view.zoom - (py - 0.5) / next;
      view.zoom = next;
      if (next === 1) { view.x = 0.5; view.y = 0.5; }
      canvas.dataset.zoom = next.toFixed(2);
      draw();
    };
    const nearest = (event) => {
      const box = canvas.getBoundingClientRect();
      const px = event.clientX - box.left, py = event.clientY - box.top;
      let best = -1, least = 14 * 14;
      for (let i = 0; i < labels.length; i++) {
        const [x, y] = place(xy, i, view, box.width);
        const distance = (x - px) ** 2 + (y - py) ** 2;
        if (distance < least) { least = distance; best = i; }
      }
      return best;
    };
    let grabbed = null, moved = false;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      zoom(event.deltaY < 0 ? 1.25 : 0.8, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { grabbed = [event.clientX, event.clientY]; moved = false; });
    window.addEventListener("pointerup", () => { grabbed = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (grabbed && view.zoom > 1) {
        const side = canvas.clientWidth * view.zoom;
        view.x -= (event.clientX - grabbed[0]) / side;
        view.y -= (event.clientY - grabbed[1]) / side;
        moved = moved || Math.hypot(event.clientX - grabbed[0], event.clientY - grabbed[1]) > 1;
        grabbed = [event.clientX, event.clientY];
        tip.hidden = true;
        draw();
        return;
      }
      show(nearest(event), event);
    });
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("click", (event) => {
      if (moved) return;
      const i = nearest(event);
      choose(i < 0 || labels[i] === chosen ? null : labels[i]);
    });
    for (const button of canvas.closest("figure").querySelectorAll("[data-zoom-by]"))
      button.addEventListener("click", () => zoom(Number(button.dataset.zoomBy)));
    redraws.push(draw);
  }

  function show(i, event) {
    tip.hidden = i < 0;
    if (i < 0) return;
    const lines = [`row ${data.rows[i]}, cluster ${labels[i]}, certainty ${data.certainty[i]}`];
    data.hoverNames.forEach((name, j) => lines.push(`${name}: ${data.hover[i][j]}`));
    tip.textContent = lines.join("\n");
    const right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
    tip.style.left = `${Math.max(4, right ? event.clientX - tip.offsetWidth - 12 : event.clientX + 16)}px`;
    tip.style.top = `${Math.min(window.innerHeight - tip.offsetHeight - 4, event.clientY + 12)}px`;
  }

  function kernel(canvas) {
    const values = bytes(data.kernels[canvas.dataset.kernel]), owners = shorts(data.kernelLabels), n = owners.length;
    canvas.width = n;
    canvas.height = n;
    const stops = [[255, 255, 255], [107, 174, 214], [8, 48, 107]];
    redraws.push(() => {
      const context = canvas.getContext("2d"), image = context.createImageData(n, n);
      for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
        const t = values[i * n + j] / 127.5, low = Math.min(1, Math.floor(t)), at = 4 * (i * n + j);
        const lit = chosen === null || owners[i] === chosen || owners[j] === chosen;
        for (let k = 0; k < 3; k++) {
          const shade = stops[low][k] + (t - low) * (stops[low + 1][k] - stops[low][k]);
          image.data[at + k] = lit ? shade : 255 - (255 - shade) * 0.15;
        }
        image.data[at + 3] = 255;
      }
      context.putImageData(image, 0, 0);
    });
  }

  function animation(canvas) {
    const frames = data.iterations.map(shorts), owners = shorts(data.iterationLabels), view = { x: 0.5, y: 0.5, zoom: 1 };
    const slider = document.getElementById("iteration"), name = document.getElementById("iteration-name");
    const play = document.getElementById("play");
    let timer = null;
    const draw = () => {
      const index = Number(slider.value);
      name.textContent = index === 0 ? "start" : `iteration ${index}`;
      drawPoints(canvas, frames[index], owners, view);
    };
    const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
    play.addEventListener("click", () => {
      if (timer) { stop(); return; }
      if (Number(slider.value) === frames.length - 1) slider.value = 0;
      play.textContent = "Pause";
      timer = setInterval(() => {
        slider.value = Number(slider.value) + 1;
        draw();
        if (Number(slider.value) === frames.length - 1) stop();
      }, 500);
    });
    slider.addEventListener("input", () => { stop(); draw(); });
    redraws.push(draw);
  }

  function choose(cluster) {
    chosen = cluster;
    for (const element of document.querySelectorAll("[data-cluster]")) {
      const own = Number(element.dataset.cluster);
      element.classList.toggle("dim", chosen !== null && own !== chosen && element.tagName !== "BUTTON");
      if (element.tagName === "BUTTON") element.setAttribute("aria-pressed", String(own === chosen));
    }
    document.body.dataset.chosen = chosen === null ? "" : chosen;
    redraws.forEach((redraw) => redraw());
  }

  document.querySelectorAll("canvas[data-view]").forEach(scatter);
  document.querySelectorAll("canvas[data-kernel]").forEach(kernel);
  document.querySelectorAll("canvas[data-iterations]").forEach(animation);
  document.addEventListener("click", (event) => {
    const element = event.target.closest("[data-cluster]");
    if (!element) return;
    const cluster = Number(element.dataset.cluster);
    choose(cluster === chosen ? null : cluster);
  });
  document.getElementById("all").addEventListener("click", () => choose(null));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") choose(null); });
  let waiting = false;
  window.addEventListener("resize", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; redraws.forEach((redraw) => redraw()); });
  });
  choose(null);
  document.body.dataset.ready = "yes";
})();
