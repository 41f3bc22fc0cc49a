// The modelled run of one tile: engines over time, what DDR and the NoC move, and what lies in the tile's scratchpad.

const What = { INSTRUCTION: 0, WORK: 1, WAIT: 2, FULL: 3, BARRIER: 4, TURNS: 5 };
const PAUSES = { 2: "waits for", 3: "queue is full:", 4: "barrier", 5: "turns left out" };
const LANES = ["groups", ...ENGINE_ORDER];
const unfolded = new Map(); // by program, a set of groups

/** The rows of a tile as arrays in cycles, in order of their start; null where the page has none. */
function rowsOf(of, tile) {
  const number = of.timeline.of_tile[tile];
  if (number < 0) return null;
  const packed = of.timeline.rows[number];
  if (!packed.lanes) {
    const start = new Float64Array(packed.start.length);
    let at = 0;
    packed.start.forEach((step, n) => { at += step; start[n] = at / 10; });
    const end = Float64Array.from(packed.cycles, (value, n) => start[n] + value / 10);
    const lanes = ENGINE_ORDER.map(() => []);
    const laneOf = of.engines.map((name) => ENGINE_ORDER.indexOf(name));
    packed.what.forEach((what, n) => lanes[what <= What.WORK ? laneOf[packed.engine[n]] : 0].push(n));
    packed.lanes = { start, end, lanes, group: Int32Array.from(packed.record, (record) => groupOfRecords(of)[record]) };
  }
  return { ...packed, ...packed.lanes };
}

const isUnfolded = (number) => {
  const of = program();
  if (!unfolded.has(of)) unfolded.set(of, new Set(of.groups.length <= 12 ? of.groups.keys() : []));
  return unfolded.get(of).has(number);
};

/** Rectangles [lane, from, to, colour, opacity, group, row] of a window, some pixels wide at least: short ones are drawn together. */
function rectangles(of, rows, from, to, width) {
  const pixel = (to - from) / Math.max(width, 1);
  const made = [];
  let bin = null;
  const close = () => { if (bin) made.push([bin.lane, bin.from, bin.to, bin.color, Math.min(1, 0.25 + bin.busy / (bin.to - bin.from)), bin.group, OUTSIDE]); bin = null; };
  const add = (lane, start, end, color, opacity, group, row) => {
    if (end < from || start > to) return;
    if (end - start >= 2 * pixel) {
      close();
      made.push([lane, start, end, color, opacity, group, row]);
    } else if (bin && bin.lane === lane && bin.color === color && start - bin.from < 2 * pixel) {
      bin.to = Math.max(bin.to, end, bin.from + 2 * pixel);
      bin.busy += end - start;
    } else {
      close();
      bin = { lane, from: start, to: Math.max(end, start + 2 * pixel), busy: end - start, color, group };
    }
  };
  of.groups.forEach((group, number) => group.start >= 0 && add(0, group.start, group.end, number === chosen.group ? "#e0a800" : number % 2 ? "#93a7c9" : "#b9c6de", 0.9, number, OUTSIDE));
  close();
  ENGINE_ORDER.forEach((engine, lane) => {
    of.groups.forEach((group, number) => {
      if (group.start < 0 || isUnfolded(number) || !group.busy_cycles[engine]) return;
      add(lane + 1, group.start, group.end, ENGINE_COLORS[engine], 0.1 + 0.9 * Math.min(1, group.busy_cycles[engine] / Math.max(1, group.end - group.start)), number, OUTSIDE);
    });
    close();
    if (!rows) return;
    for (const n of rows.lanes[lane]) {
      if (rows.start[n] > to) break;
      if (rows.end[n] < from || (rows.group[n] !== OUTSIDE && !isUnfolded(rows.group[n]))) continue;
      const color = rows.what[n] <= What.WORK ? ENGINE_COLORS[engine] : rows.what[n] === What.TURNS ? "hatch" : "#d5dae1";
      add(lane + 1, rows.start[n], rows.end[n], color, 0.9, rows.group[n], n);
    }
    close();
  });
  return made;
}

/** [name, first byte, bytes, from, to] of the buffers that a tile's drawn instructions use, in cycles from first to last use. */
function livesOf(of, rows) {
  if (!rows) return [];
  const first = new Map();
  const last = new Map();
  rows.record.forEach((record, n) => {
    if (rows.what[n] > What.WORK) return;
    if (!first.has(record)) first.set(record, rows.start[n]);
    last.set(record, Math.max(last.get(record) ?? 0, rows.end[n]));
  });
  const lives = of.buffers.map(() => [Infinity, -Infinity]);
  of.uses[0].forEach((record, n) => {
    if (!first.has(record)) return;
    const life = lives[of.uses[1][n]];
    life[0] = Math.min(life[0], first.get(record));
    life[1] = Math.max(life[1], last.get(record));
  });
  return of.buffers.map(([name, address, size], n) => [name, address, size, ...lives[n]]).filter((life) => life[4] >= life[3]);
}

/** [cycle, bytes from there on] of all buffers in use; bytes that two share count once for each that begins elsewhere. */
function occupied(lives) {
  const times = [...new Set(lives.flatMap(([, , , from, to]) => [from, to]))].sort((a, b) => a - b);
  const step = Math.max(1, Math.ceil(times.length / 1500));
  const byStart = [...lives].sort((a, b) => a[1] - b[1]);
  return times.filter((_, n) => n % step === 0).map((time) => {
    let [sum, end] = [0, 0];
    for (const [, address, size, from, to] of byStart) {
      if (from > time || to <= time || address + size <= end) continue;
      sum += address + size - Math.max(address, end);
      end = address + size;
    }
    return [time, sum / 1024];
  });
}

function clipped(params, api, y, height) {
  const [from, to] = [api.coord([api.value(1), 0])[0], api.coord([api.value(2), 0])[0]];
  const { x, width } = params.coordSys;
  const left = Math.max(from, x);
  const right = Math.min(Math.max(to, from + 1), x + width);
  return right <= left ? null : { x: left, y, width: right - left, height };
}

/** Buffers that later ones are drawn over in their middle: turns of a loop use their bytes in turns. */
function covered(lives) {
  const found = new Set();
  lives.forEach(([, address, size, from, to], n) => {
    const [time, place] = [(from + to) / 2, address + size / 2];
    for (let m = n + 1; m < lives.length; m++) {
      const [, other, bytes, since, until] = lives[m];
      if (other <= place && place < other + bytes && since <= time && time < until) return found.add(n);
    }
  });
  return found;
}

/** The drawing takes what the window leaves. */
const heightOf = () => Math.max(600, window.innerHeight - 186);

function timelineOption(of, rows, lives) {
  const clock = of.chip.clock_hz;
  const hidden = covered(lives);
  const rate = (pairs) => pairs[0].map((cycle, n) => [cycle, (pairs[1][n] * clock) / 1e9]);
  const cycles = of.report.cycles;
  const room = heightOf() - 200; // without titles and axes
  const heights = [0.36, 0.16, 0.13, 0.35].map((share) => Math.round(share * room));
  const tops = heights.map((_, n) => 26 + heights.slice(0, n).reduce((a, b) => a + b, 0) + [0, 48, 82, 116][n]);
  const grids = heights.map((height, n) => ({ left: 88, right: 26, top: tops[n], height }));
  const x = grids.map((_, n) => ({ type: "value", gridIndex: n, min: 0, max: cycles, ...AXIS, name: n === 3 ? "cycles since the launch began" : "", nameGap: 22, axisLabel: { color: "#57606a", show: n === 3 || n === 0, formatter: (v) => scaled(v, "") } }));
  const kib = (v) => `${count(v)}`;
  const limit = of.chip.spm_limit / 1024;
  const used = Math.min(limit, Math.ceil((1.08 * Math.max(64 * 1024, ...lives.map(([, address, size]) => address + size))) / 1024 / 64) * 64);
  const peak = (of.chip.ddr_bytes_per_cycle * clock) / 1e9;
  const most = Math.max(peak, ...rate(of.ddr).map((pair) => pair[1]), ...rate(of.noc).map((pair) => pair[1]));
  const title = (text, n) => ({ text, left: 86, top: tops[n] - 24, textStyle: { fontSize: 12, color: "#1c2128", fontWeight: 600 } });
  const colors = ["#7ea6f5", "#8fd0b0", "#f0b48f", "#c7a8ec", "#e7d27a", "#9ed3e3", "#e9a3b4"];
  return {
    animation: false,
    title: [title(`Engines of tile ${chosen.tile}`, 0), title("Bytes that all tiles move", 1), title(`Scratchpad of tile ${chosen.tile}: bytes of buffers in use`, 2), title(`Scratchpad of tile ${chosen.tile}: buffers by address; it ends at ${count(limit)} KiB`, 3)],
    legend: { data: ["DDR", "NoC, sent"], right: 26, top: tops[1] - 26, textStyle: { color: "#57606a" } },
    grid: grids, xAxis: x,
    yAxis: [
      { type: "category", gridIndex: 0, data: LANES, inverse: true, ...AXIS, axisTick: { show: false } },
      { type: "value", gridIndex: 1, name: "GB/s", nameGap: 46, max: Math.ceil((1.25 * most) / 50) * 50, ...AXIS, splitNumber: 3 },
      { type: "value", gridIndex: 2, name: "KiB", nameGap: 46, splitNumber: 3, ...AXIS, axisLabel: { color: "#57606a", formatter: kib } },
      { type: "value", gridIndex: 3, name: "address, KiB", nameGap: 46, min: 0, max: used, ...AXIS, axisLabel: { color: "#57606a", formatter: kib } },
    ],
    dataZoom: [{ type: "inside", xAxisIndex: [0, 1, 2, 3], filterMode: "none", minSpan: 1e-4 }, { type: "slider", xAxisIndex: [0, 1, 2, 3], filterMode: "none", height: 14, bottom: 2, showDetail: false, showDataShadow: false, brushSelect: false, labelFormatter: (v) => scaled(v, "") }],
    tooltip: { trigger: "item", confine: true },
    series: [
      {
        id: "engines", type: "custom", xAxisIndex: 0, yAxisIndex: 0, data: [], cursor: "pointer", encode: { x: [1, 2], y: 0 },
        renderItem(params, api) {
          const middle = api.coord([0, api.value(0)])[1];
          const lane = api.value(0);
          const half = Math.min(14, api.size([0, 1])[1] * 0.4);
          const shape = clipped(params, api, middle - half, 2 * half);
          if (!shape) return null;
          const color = api.value(3);
          const row = api.value(6);
          const group = api.value(5);
          let name = "";
          if (shape.width > (lane === 1 ? 110 : 44)) name = lane === 0 || row === OUTSIDE ? (group === OUTSIDE ? "" : lane === 0 ? of.groups[group].name : percent(api.value(4) > 0.1 ? (api.value(4) - 0.1) / 0.9 : 0)) : mnemonic(of, rows, row);
          if (row === OUTSIDE && lane && isUnfolded(group)) name = "";
          const fill = color === "hatch" ? { image: hatch(), repeat: "repeat" } : color;
          const light = lane === 0 || color === "hatch" || color === "#d5dae1" || api.value(4) < 0.6;
          return { type: "rect", shape, style: { fill, opacity: color === "hatch" ? 1 : api.value(4) }, emphasis: { style: { stroke: "#1c2128", lineWidth: 1 } }, textConfig: { position: "inside" }, textContent: name ? { type: "text", style: { text: shorten(name, Math.floor(shape.width / 6.5)), fontSize: 11, fill: light ? "#1c2128" : "#fff" } } : undefined };
        },
        tooltip: { formatter: ({ value }) => engineTip(of, rows, value) },
      },
      { id: "ddr", name: "DDR", type: "line", step: "end", symbol: "none", xAxisIndex: 1, yAxisIndex: 1, data: rate(of.ddr), lineStyle: { width: 1 }, areaStyle: { opacity: 0.25 }, color: BOUND_COLORS.DDR, sampling: "lttb", silent: true, markLine: { silent: true, symbol: "none", label: { formatter: "peak of the DDR", position: "insideEndTop", color: "#57606a", fontSize: 10 }, lineStyle: { color: BOUND_COLORS.DDR, type: "dashed" }, data: [{ yAxis: peak }] } },
      { id: "noc", name: "NoC, sent", type: "line", step: "end", symbol: "none", xAxisIndex: 1, yAxisIndex: 1, data: rate(of.noc), lineStyle: { width: 1 }, areaStyle: { opacity: 0.2 }, color: ENGINE_COLORS.DTE, sampling: "lttb", silent: true },
      { id: "occupied", type: "line", step: "end", symbol: "none", xAxisIndex: 2, yAxisIndex: 2, data: occupied(lives), lineStyle: { width: 1.2 }, areaStyle: { opacity: 0.2 }, color: "#8a5cc2", silent: true },
      {
        id: "buffers", type: "custom", xAxisIndex: 3, yAxisIndex: 3, encode: { x: [1, 2], y: 3 },
        data: lives.map(([name, address, size, from, to], n) => [n, from, to, address / 1024, (address + size) / 1024]),
        renderItem(params, api) {
          const top = api.coord([0, api.value(4)])[1];
          const height = api.coord([0, api.value(3)])[1] - top;
          const shape = clipped(params, api, top, Math.max(1, height));
          if (!shape) return null;
          const [name] = lives[api.value(0)];
          const hasName = shape.width > 50 && height > 11 && !hidden.has(api.value(0));
          return { type: "rect", shape, style: { fill: colors[api.value(0) % colors.length], stroke: "#fff", lineWidth: 0.5 }, textConfig: { position: "inside" }, textContent: hasName ? { type: "text", style: { text: shorten(name, Math.floor(shape.width / 6.5)), fontSize: 10, fill: "#1c2128" } } : undefined };
        },
        tooltip: { formatter: ({ value }) => { const [name, address, size, from, to] = lives[value[0]]; return tip(name, [["bytes", `${count(size)} at 0x${address.toString(16)}`], ["first use", `cycle ${count(from)}`], ["last use ends", `cycle ${count(to)}`]]); } },
      },
    ],
  };
}

const mnemonic = (of, rows, row) => (rows.what[row] <= What.WORK ? of.records[rows.record[row]].trim().split(" ")[0].replace(/^CGRATensor_/, "") : pauseName(of, rows, row));
const pauseName = (of, rows, row) => (rows.what[row] === What.TURNS ? `${count(rows.amount[row])} turns like those before` : `${PAUSES[rows.what[row]]} ${rows.what[row] === What.BARRIER ? "" : of.engines[rows.engine[row]]}`.trim());

let hatched = null;
function hatch() {
  if (!hatched) {
    hatched = el("canvas", { width: 8, height: 8 });
    const pen = hatched.getContext("2d");
    pen.strokeStyle = "#9aa5b4";
    pen.beginPath();
    pen.moveTo(0, 8);
    pen.lineTo(8, 0);
    pen.stroke();
  }
  return hatched;
}

function engineTip(of, rows, value) {
  const [lane, from, to, , , group, row] = value;
  const name = group === OUTSIDE ? "" : of.groups[group].name;
  if (row === OUTSIDE) {
    const own = group === OUTSIDE ? null : of.groups[group];
    if (lane && own && isUnfolded(group)) return tip("several, too short to draw apart", [["in", name]]);
    const busy = lane && own ? [`${LANES[lane]} busy`, `${count(own.busy_cycles[LANES[lane]])} cycles, mean over tiles`] : null;
    return own ? tip(name, [["time", `${count(own.cycles)} cycles`], ["from", `${count(own.start)} to ${count(own.end)}`], busy, ["bound", own.bound]]) : "";
  }
  const record = rows.record[row];
  const origin = of.origins[of.record_origins[record]];
  if (rows.what[row] > What.WORK) return tip(pauseName(of, rows, row), [["from", `${count(from)} to ${count(to)}, ${count(to - from)} cycles`], ["record", record], ["group", name]]);
  const cause = rows.cause[row];
  return tip(of.records[record].trim().replace(/\s+/g, " ").slice(0, 90), [
    ["from", `${count(from)} to ${count(to)}, ${count(to - from)} cycles`],
    rows.queued[row] ? ["queued", `${count(rows.queued[row] / 10)} cycles${cause >= 0 ? `, last for data of ${of.engines[cause]}` : ""}`] : null,
    rows.amount[row] ? ["bytes", count(rows.amount[row])] : null, ["HLO", origin.hlo], ["source", origin.source], ["record", record], ["group", name],
  ]);
}

tabs.push({
  name: "timeline", title: "Timeline",
  make(section) {
    const tile = el("select", { id: "tile", onchange: (event) => choose({ tile: Number(event.target.value) }) });
    const button = (text, id, act) => el("button", { id, onclick: act }, text);
    const foldAll = (numbers) => { isUnfolded(0); unfolded.set(program(), new Set(numbers)); this.refresh(); };
    section.append(
      el("div", { class: "bar" }, el("label", {}, "tile ", tile), button("fold all groups", "fold", () => foldAll([])), button("unfold all", "unfold", () => foldAll(program().groups.keys())),
        button("(un)fold the chosen", "toggle", () => this.toggle(chosen.group)), button("zoom to the chosen", "zoom", () => this.zoom(chosen.group)), button("whole run", "whole", () => this.zoom(OUTSIDE)),
        el("span", { class: "dim", title: "A folded group shows how busy its engines are, as the mean over tiles." }, "wheel: zoom, drag: move, double click: fold")),
      el("div", { class: "chart", id: "runs", style: `height:${heightOf()}px` }), el("p", { class: "note", id: "cut" }));
    const drawing = chart(section.querySelector("#runs"));
    let asked = 0;
    drawing.on("datazoom", () => { cancelAnimationFrame(asked); asked = requestAnimationFrame(() => this.refresh()); });
    drawing.on("click", ({ seriesId, value }) => {
      if (seriesId !== "engines") return;
      const rows = rowsOf(program(), chosen.tile);
      choose({ group: value[5], record: value[6] === OUTSIDE ? chosen.record : rows.record[value[6]] });
    });
    drawing.on("dblclick", ({ seriesId, value }) => seriesId === "engines" && this.toggle(value[5]));
    this.drawing = drawing;
  },
  toggle(number) {
    if (number === OUTSIDE) return;
    const was = isUnfolded(number);
    unfolded.get(program())[was ? "delete" : "add"](number);
    this.refresh();
  },
  zoom(number) {
    const of = program();
    const group = of.groups[number];
    const [from, to] = group && group.start >= 0 ? [group.start, group.end] : [0, of.report.cycles];
    this.drawing.dispatchAction({ type: "dataZoom", startValue: from, endValue: to });
    this.refresh();
  },
  /** The rectangles of the window that is shown now. */
  refresh() {
    const of = program();
    const { startValue, endValue } = this.drawing.getOption().dataZoom[0];
    const data = rectangles(of, this.rows, startValue ?? 0, endValue ?? of.report.cycles, this.drawing.getWidth() - 114);
    this.drawing.setOption({ series: [{ id: "engines", data }] });
  },
  update(section, changed) {
    const of = program();
    if (["program", "tile"].some((name) => changed.has(name)) || !this.drawn) {
      section.querySelector("#tile").replaceChildren(...of.tiles.map((_, n) => el("option", { value: n, ...(n === chosen.tile ? { selected: "" } : {}) }, `${n} (row ${Math.floor(n / of.chip.mesh[1])}, column ${n % of.chip.mesh[1]})`)));
      this.rows = rowsOf(of, chosen.tile);
      this.drawing.setOption(timelineOption(of, this.rows, livesOf(of, this.rows)), true);
      const notes = [of.timeline.cut, this.rows ? "" : "this tile's instructions had no room on the page", of.timeline.left_out.length ? `tiles without their instructions: ${of.timeline.left_out.join(", ")}` : ""];
      section.querySelector("#cut").textContent = ["Instructions are those of one tile; a buffer is in use from its first instruction to its last.", ...notes.filter(Boolean)].join(" Not drawn: ").replace("Not drawn: tiles", "Tiles");
      this.drawn = true;
    }
    this.refresh();
  },
});
