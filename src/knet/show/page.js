"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const shorts = (text) => new Uint16Array(bytes(text).buffer);
  const labels = shorts(data.labels);
  const copies = shorts(data.copies);
  const tip = document.getElementById("tip");
  const redraws = [];
  let chosen = null, selecting = false, selected = new Set();
  const SHOWN = 50, HOVERED = 4;  // selected rows in the table; columns of the tip

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
        const lit = (chosen === null || owners[i] === chosen) && (selected.size === 0 || selected.has(i));
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
    let frame = null;  // corners of the rectangle that is being drawn, as shares of the side
    const draw = () => {
      drawPoints(canvas, xy, labels, view);
      if (!frame) return;
      const context = canvas.getContext("2d"), [x, y, right, bottom] = frame.map((share) => share * canvas.width);
      context.strokeStyle = ink("--blue");
      context.lineWidth = 2 * (window.devicePixelRatio || 1);
      context.strokeRect(x, y, right - x, bottom - y);
    };
    const share = (event) => {
      const box = canvas.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    const inside = () => {
      const [left, right] = [frame[0], frame[2]].sort((a, b) => a - b), [top, bottom] = [frame[1], frame[3]].sort((a, b) => a - b);
      return [...labels.keys()].filter((i) => {
        const [x, y] = place(xy, i, view, 1);
        return x >= left && x <= right && y >= top && y <= bottom && (chosen === null || labels[i] === chosen);
      });
    };
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
    canvas.addEventListener("pointerdown", (event) => {
      grabbed = [event.clientX, event.clientY];
      moved = false;
      if (!selecting) return;
      canvas.setPointerCapture(event.pointerId);  // the rectangle may end outside
      frame = [...share(event), ...share(event)];
    });
    window.addEventListener("pointerup", (event) => {
      grabbed = null;
      if (!frame) return;
      const found = inside();
      frame = null;
      if (moved) select(event.shiftKey ? [...selected, ...found] : found);
    });
    window.addEventListener("pointercancel", () => { grabbed = frame = null; draw(); });
    canvas.addEventListener("pointermove", (event) => {
      if (frame) {
        frame.splice(2, 2, ...share(event));
        moved = true;
        tip.hidden = true;
        draw();
        return;
      }
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
    canvas.closest("figure").querySelector("[data-select]").addEventListener("click", () => {
      selecting = !selecting;
      document.body.classList.toggle("selecting", selecting);
      for (const button of document.querySelectorAll("[data-select]")) button.setAttribute("aria-pressed", String(selecting));
    });
    redraws.push(draw);
  }

  function show(i, event) {
    tip.hidden = i < 0;
    if (i < 0) return;
    const lines = [`row ${data.rows[i]}, cluster ${labels[i]}`];
    if (data.certainty.length) lines[0] += `, probability ${data.certainty[i]}`;
    if (copies[i] > 1) lines.push(`${copies[i]} identical rows`);
    for (const column of data.columns.slice(0, HOVERED)) lines.push(`${column.name}: ${brief(column, i)}`);
    tip.textContent = lines.join("\n");
    const right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
    tip.style.left = `${Math.max(4, right ? event.clientX - tip.offsetWidth - 12 : event.clientX + 16)}px`;
    tip.style.top = `${Math.min(window.innerHeight - tip.offsetHeight - 4, event.clientY + 12)}px`;
  }

  // A value for the eye: about four digits, and a dash if it is missing.
  function brief(column, i) {
    const text = column.values[i], number = Number(text);
    if (text === "" || !column.isNumber) return text || "\u2013";
    return Math.abs(number) >= 1e4 && Math.abs(number) < 1e12 ? Math.round(number).toLocaleString("en") : String(Number(number.toPrecision(4)));
  }

  // The columns of the table of selected rows, and of its file.
  const facts = [
    { name: "row", values: data.rows },
    ...(data.positions.length ? [{ name: "position", values: data.positions.map(String), isNumber: true }] : []),
    { name: "cluster", values: [...labels].map(String) },
    ...(data.certainty.length ? [{ name: "probability", values: data.certainty }] : []),
    ...data.columns,
  ];

  function select(found) {
    selected = new Set(found);
    const counts = new Map(), rows = [...selected].sort((a, b) => a - b);
    for (const i of rows) counts.set(labels[i], (counts.get(labels[i]) || 0) + 1);
    const parts = [...counts].sort((a, b) => a[0] - b[0]).map(([cluster, n]) => `${n} of cluster ${cluster}`);
    const more = rows.length > SHOWN ? ` The first ${SHOWN} are shown; the file has all of them.` : "";
    document.getElementById("selected").textContent = rows.length
      ? `${rows.length} of the ${labels.length} rows of the map: ${parts.join(", ")}.${more}` : "No rows are selected.";
    document.getElementById("export").disabled = document.getElementById("clear").disabled = rows.length === 0;
    const line = (texts, tag) => {
      const row = document.createElement("tr");
      row.append(...texts.map((text) => Object.assign(document.createElement(tag), { textContent: text, className: "cut" })));
      return row;
    };
    const table = document.getElementById("selection");
    table.tHead.replaceChildren(...(rows.length ? [line(facts.map((column) => column.name), "th")] : []));
    table.tBodies[0].replaceChildren(...rows.slice(0, SHOWN).map((i) => line(facts.map((column) => brief(column, i)), "td")));
    document.body.dataset.selected = rows.length;
    redraw();
  }

  // A text that a spreadsheet would compute gets an apostrophe; numbers stay.
  function cell(text) {
    const safe = /^[=+@\t\r-]/.test(text) && !/^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function download() {
    const rows = [...selected].sort((a, b) => a - b);
    const lines = [facts.map((column) => column.name), ...rows.map((i) => facts.map((column) => column.values[i]))];
    const text = lines.map((line) => `${line.map(cell).join(",")}\r\n`).join("");
    const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    Object.assign(document.createElement("a"), { href: address, download: "selected-rows.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  function choose(cluster) {
    chosen = cluster;
    document.getElementById("select-cluster").disabled = chosen === null;
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
  document.getElementById("select-cluster").addEventListener("click", () =>
    select([...labels.keys()].filter((i) => labels[i] === chosen)));
  document.getElementById("export").addEventListener("click", download);
  document.getElementById("clear").addEventListener("click", () => select([]));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") { select([]); choose(null); } });
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
  select([]);
  document.body.dataset.ready = "yes";
})();
