"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const shorts = (text) => new Uint16Array(bytes(text).buffer);
  const labels = shorts(data.labels);
  const copies = shorts(data.copies);
  const tip = document.getElementById("tip");
  const redraws = [];
  let chosen = null;

  // Colours are those of the style sheet, so that they follow the light or dark scheme.
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let palette = [];
  const color = (cluster) => palette[cluster % palette.length];

  // Draw a point of a cluster: the colours repeat every eight clusters, with another symbol.
  function mark(context, cluster, x, y, r) {
    const corners = data.corners[Math.floor(cluster / palette.length) % data.corners.length];
    context.beginPath();
    if (corners.length === 0) context.arc(x, y, r, 0, 7);
    else corners.forEach(([dx, dy], i) => (i ? context.lineTo(x + dx * r, y + dy * r) : context.moveTo(x + dx * r, y + dy * r)));
    context.fill();
  }

  // Several identical rows are one point: its area says how many, up to sixteen.
  const growth = (i) => Math.sqrt(Math.min(16, copies[i]));

  // Write the number of each cluster at the point nearest to the mean of its points: it is inside even if curved.
  function numbers(context, xy, owners, view, side, ratio, r) {
    const sums = new Map(), nearest = new Map();
    for (let i = 0; i < owners.length; i++) {
      const sum = sums.get(owners[i]) || [0, 0, 0];
      sums.set(owners[i], [sum[0] + xy[2 * i], sum[1] + xy[2 * i + 1], sum[2] + 1]);
    }
    for (let i = 0; i < owners.length; i++) {
      const [x, y, n] = sums.get(owners[i]), best = nearest.get(owners[i]) || { least: Infinity, spread: 0, i };
      const distance = (xy[2 * i] - x / n) ** 2 + (xy[2 * i + 1] - y / n) ** 2;
      if (distance < best.least) { best.least = distance; best.i = i; }
      best.spread += distance / n;
      nearest.set(owners[i], best);
    }
    context.font = `600 ${(sums.size > 20 ? 10 : 13) * ratio}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    for (const [cluster, { i, spread }] of nearest) {
      if (chosen !== null && cluster !== chosen) continue;
      let [x, y] = place(xy, i, view, side);
      if (Math.sqrt(spread) / 65535 * view.zoom * side < 16 * ratio)  // a number would hide a small cluster: beside it
        x += (x < side / 2 ? 1 : -1) * (14 * ratio + r * growth(i));
      context.lineWidth = 4 * ratio;
      context.strokeStyle = ink("--paper");
      context.strokeText(cluster, x, y);
      context.fillStyle = ink("--ink");
      context.fillText(cluster, x, y);
    }
  }

  function fit(canvas) {
    const side = Math.max(50, Math.round(canvas.clientWidth * (window.devicePixelRatio || 1)));
    if (canvas.width !== side) { canvas.width = side; canvas.height = side; }
    return side;
  }

  function drawPoints(canvas, xy, owners, view) {
    const side = fit(canvas), context = canvas.getContext("2d"), ratio = window.devicePixelRatio || 1;
    const r = Math.max(1.2, Math.min(4, 90 / Math.sqrt(owners.length))) * ratio;
    const dimmed = ink("--dimmed");
    context.clearRect(0, 0, side, side);
    for (const front of [false, true]) {
      for (let i = 0; i < owners.length; i++) {
        const lit = chosen === null || owners[i] === chosen;
        if (lit !== front) continue;
        context.fillStyle = lit ? color(owners[i]) : dimmed;
        mark(context, owners[i], ...place(xy, i, view, side), r * growth(i));
      }
    }
    numbers(context, xy, owners, view, side, ratio, r);
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
      if (!event.ctrlKey && view.zoom === 1) return;  // the page scrolls until the plot is zoomed
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
    const lines = [`row ${data.rows[i]}, cluster ${labels[i]}`];
    if (data.certainty.length) lines[0] += `, probability ${data.certainty[i]}`;
    if (copies[i] > 1) lines.push(`${copies[i]} identical rows`);
    data.hoverNames.forEach((name, j) => lines.push(`${name}: ${data.hover[i][j]}`));
    tip.textContent = lines.join("\n");
    const right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
    tip.style.left = `${Math.max(4, right ? event.clientX - tip.offsetWidth - 12 : event.clientX + 16)}px`;
    tip.style.top = `${Math.min(window.innerHeight - tip.offsetHeight - 4, event.clientY + 12)}px`;
  }

  function choose(cluster) {
    chosen = cluster;
    for (const element of document.querySelectorAll("[data-cluster]")) {
      const own = Number(element.dataset.cluster);
      element.classList.toggle("dim", chosen !== null && own !== chosen && element.tagName !== "BUTTON");
      if (element.tagName === "BUTTON") element.setAttribute("aria-pressed", String(own === chosen));
    }
    document.body.dataset.chosen = chosen === null ? "" : chosen;
    redraw();
  }

  function redraw() {
    palette = Array.from({ length: 8 }, (_, k) => ink(`--c${k}`));
    redraws.forEach((draw) => draw());
    document.querySelectorAll(".box").forEach(cue);
  }

  // Shade the side on which a table continues.
  function cue(box) {
    const area = box.querySelector(".scroll"), rest = area.scrollWidth - area.clientWidth - area.scrollLeft;
    box.classList.toggle("more", rest > 1);
    box.classList.toggle("less", area.scrollLeft > 1);
  }

  document.querySelectorAll("canvas[data-view]").forEach(scatter);
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
    requestAnimationFrame(() => { waiting = false; redraw(); });
  });
  for (const box of document.querySelectorAll(".box"))
    box.querySelector(".scroll").addEventListener("scroll", () => cue(box), { passive: true });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
  choose(null);
  document.body.dataset.ready = "yes";
})();
