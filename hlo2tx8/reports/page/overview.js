// The program as a whole: the mesh, the roofline, engines, and where the time goes beyond the bound.

const METRICS = [
  { name: "time: busiest engine", unit: "cycles", of: (tile) => Math.max(...Object.values(tile).map((e) => e.busy_cycles)) },
  { name: "engine that is busy longest", unit: "cycles", names: true, of: (tile) => Math.max(...Object.values(tile).map((e) => e.busy_cycles)) },
  ...ENGINE_ORDER.map((engine) => ({ name: `${engine} busy`, unit: "cycles", of: (tile) => tile[engine].busy_cycles })),
  ...ENGINE_ORDER.map((engine) => ({ name: `${engine} blocked`, unit: "cycles", of: (tile) => Object.values(tile[engine].blocked_cycles).reduce((a, b) => a + b, 0) })),
  { name: "bytes from DDR", unit: "B", counted: "RDMA" },
  { name: "bytes to DDR", unit: "B", counted: "WDMA" },
  { name: "bytes sent to tiles", unit: "B", counted: "DTE" },
  { name: "instructions", unit: "", of: (tile) => Object.values(tile).reduce((sum, e) => sum + e.instructions, 0) },
];

// An arrow over the border of two tiles for each link that something goes over, as dark as it carries bytes.
function linkArrows() {
  const of = program();
  const columns = of.chip.mesh[1];
  const most = Math.max(...of.links.map((link) => link[2]), 1);
  return {
    type: "custom", z: 5,
    data: of.links.map(([from, to, moved]) => [from % columns, Math.floor(from / columns), to % columns, Math.floor(to / columns), moved]),
    encode: { x: 0, y: 1 },
    renderItem: (_, api) => {
      const [fromX, fromY] = api.coord([api.value(0), api.value(1)]);
      const [toX, toY] = api.coord([api.value(2), api.value(3)]);
      const length = Math.hypot(toX - fromX, toY - fromY);
      const [dx, dy] = [(toX - fromX) / length, (toY - fromY) / length];
      const half = Math.min(16, 0.16 * length), side = Math.min(9, 0.1 * length), width = 2 + 3 * api.value(4) / most;
      const at = (along, across) => [(fromX + toX) / 2 + along * dx - across * dy, (fromY + toY) / 2 + along * dy + across * dx];
      const points = [at(-half, side - width / 2), at(half - 6, side - width / 2), at(half - 6, side - width), at(half, side), at(half - 6, side + width), at(half - 6, side + width / 2), at(-half, side + width / 2)];
      return { type: "polygon", shape: { points }, style: { fill: ENGINE_COLORS.DTE, opacity: 0.25 + 0.75 * api.value(4) / most, stroke: "#fff", lineWidth: 0.5 } };
    },
    tooltip: {
      formatter: ({ data }) => tip(`tile ${data[1] * columns + data[0]} to ${data[3] * columns + data[2]}`, [["over this link", bytes(data[4])], ["of what it can carry in the time", percent(data[4] / (of.chip.link_bytes_per_cycle * of.report.cycles))]]),
    },
  };
}

function drawMesh(element, metric) {
  const of = program();
  const [rows, columns] = of.chip.mesh;
  const values = of.tiles.map((tile, n) => (metric.counted ? (of.tile_bytes ? of.tile_bytes[n][metric.counted] || 0 : 0) : metric.of(tile)));
  const names = of.tiles.map((tile) => Object.keys(tile).reduce((a, b) => (tile[b].busy_cycles > tile[a].busy_cycles ? b : a)));
  const shown = (value) => (metric.unit === "B" ? bytes(value) : count(value));
  const most = Math.max(...values, 1);
  chart(element).setOption({
    grid: { left: 44, right: 92, top: 10, bottom: 34 },
    xAxis: { type: "category", data: [...Array(columns).keys()], name: "column", nameGap: 20, ...AXIS, position: "bottom" },
    yAxis: { type: "category", data: [...Array(rows).keys()], name: "row", nameGap: 24, inverse: true, ...AXIS },
    visualMap: { seriesIndex: 0, min: 0, max: most, right: 0, top: "middle", calculable: false, itemHeight: 150, formatter: shown, inRange: { color: ["#f6f8fc", "#cfddf7", "#8fb0ee"] }, text: [shown(most), "0"], textStyle: { color: "#57606a" } },
    tooltip: {
      formatter: ({ data }) => {
        const tile = data[1] * columns + data[0];
        const engines = ENGINE_ORDER.filter((e) => of.tiles[tile][e].busy_cycles).map((e) => [`${e} busy`, `${count(of.tiles[tile][e].busy_cycles)} cycles`]);
        const moved = of.tile_bytes ? Object.entries(of.tile_bytes[tile]).filter(([, v]) => v).map(([e, v]) => [`${e} moves`, bytes(v)]) : [];
        return tip(`tile ${tile}`, [[metric.name, `${shown(data[2])} ${metric.unit === "cycles" ? "cycles" : ""}`], ...engines, ...moved]);
      },
    },
    series: [{
      type: "heatmap", data: values.map((value, n) => [n % columns, Math.floor(n / columns), value]),
      label: { show: true, formatter: ({ data }) => { const n = data[1] * columns + data[0]; return `tile ${n}\n${metric.names ? `${names[n]} ` : ""}${shown(data[2])}`; }, lineHeight: 16, fontSize: 11, color: "#1c2128" },
      itemStyle: { borderColor: "#fff", borderWidth: 2 },
    }, linkArrows()],
  }, true);
}

function linkNote() {
  const of = program();
  const most = Math.max(...of.links.map((link) => link[2]), 0);
  return most ? ` Arrows are links of the mesh; the busiest carries ${bytes(most)}, ${percent(most / (of.chip.link_bytes_per_cycle * of.report.cycles))} of what it can in the time.` : "";
}

function drawRoofline(element) {
  const of = program();
  const clock = of.chip.clock_hz;
  const ddr = of.chip.ddr_bytes_per_cycle;
  const drawn = of.groups.map((group, number) => ({ group, number })).filter(({ group }) => group["bytes accessed"] && group.flops && group.cycles);
  const dots = drawn.map(({ group, number }) => ({
    value: [group.flops / group["bytes accessed"], (group.flops / group.cycles) * clock],
    symbolSize: 8 + 26 * Math.sqrt(group.share), number,
    itemStyle: { color: BOUND_COLORS[group.bound] || "#888", opacity: 0.75, borderColor: number === chosen.group ? "#1c2128" : "#fff", borderWidth: number === chosen.group ? 3 : 1 },
  }));
  const whole = of.report.flops && of.report["bytes accessed"] ? [[of.report.flops / of.report["bytes accessed"], (of.report.flops / of.report.cycles) * clock]] : [];
  const least = of.bound && of.bound.flops && of.bound.bytes ? [[of.bound.flops / of.bound.bytes, (of.bound.flops / of.bound.cycles) * clock]] : [];
  const points = [...dots.map((dot) => dot.value), ...whole, ...least];
  const x = [Math.min(0.1, ...points.map((p) => p[0])) / 1.5, Math.max(1000, ...points.map((p) => p[0])) * 2].map((value, n) => 10 ** (n ? Math.ceil(Math.log10(value)) : Math.floor(Math.log10(value))));
  const roofs = Object.entries(of.chip.roofs);
  const top = Math.max(...roofs.map(([, rate]) => rate)) * clock;
  const low = 10 ** Math.floor(Math.log10(Math.min(...points.map((p) => p[1]), 1e11) / 1.5));
  const line = (name, data, color, type, place = { offset: [-4, -8], align: "right" }) => ({ name, type: "line", data, symbol: "none", silent: true, lineStyle: { color, width: 1.5, type }, endLabel: { show: true, formatter: name, color: "#57606a", fontSize: 10, distance: 4, backgroundColor: "rgba(255,255,255,0.85)", padding: [1, 2], ...place } });
  const knee = top / (ddr * clock);
  chart(element).setOption({
    grid: { left: 74, right: 18, top: 26, bottom: 44 },
    xAxis: { type: "log", min: x[0], max: x[1], name: "operations per byte of DDR", nameGap: 26, ...AXIS },
    yAxis: { type: "log", min: low, max: 10 ** Math.ceil(Math.log10(top * 1.2)), name: "operations per second", nameGap: 54, ...AXIS, axisLabel: { color: "#57606a", formatter: (v) => scaled(v, "") } },
    tooltip: {
      formatter: (point) => {
        if (point.seriesName !== "groups") return tip(point.seriesName, [["operations per byte", point.value[0].toPrecision(3)], ["operations per second", scaled(point.value[1], "")]]);
        const group = of.groups[point.data.number];
        return tip(group.name, [["time", `${count(group.cycles)} cycles, ${percent(group.share)}`], ["bound", `${group.bound}, then ${group.next_bound}`], ["operations per byte", point.value[0].toPrecision(3)], ["operations per second", scaled(point.value[1], "")], ["of what it moves and computes at least", percent(group.roofline)]]);
      },
    },
    series: [
      line(`DDR ${scaled(ddr * clock, "B/s")}`, [[knee, top], [Math.max(x[0], low / (ddr * clock)), Math.max(low, x[0] * ddr * clock)]], BOUND_COLORS.DDR, "solid", { offset: [10, -14], align: "left" }),
      ...roofs.map(([name, rate]) => line(`${name} ${scaled(rate * clock, "op/s")}`, [[Math.max(x[0], rate / ddr), rate * clock], [x[1], rate * clock]], name.startsWith("NE") ? ENGINE_COLORS.NE : ENGINE_COLORS.CT, name.includes("int8") || name.includes("32") ? "dashed" : "solid")),
      { name: "groups", type: "scatter", data: dots, cursor: "pointer" },
      { name: "the whole program", type: "scatter", symbol: "diamond", symbolSize: 15, data: whole, itemStyle: { color: "#1c2128" } },
      { name: "lower bound of the module", type: "scatter", symbol: "triangle", symbolSize: 13, data: least, itemStyle: { color: "#fff", borderColor: "#1c2128", borderWidth: 2 } },
    ],
  }, true);
  return of.groups.length - drawn.length;
}

function engineTable() {
  const of = program();
  const cycles = of.report.cycles;
  const rows = ENGINE_ORDER.filter((name) => of.report.counters[name].instructions).map((name) => {
    const counters = of.report.counters[name];
    const causes = Object.entries(counters.blocked_cycles).filter(([, value]) => value >= 0.005 * cycles).sort((a, b) => b[1] - a[1]).slice(0, 3);
    const blocked = Object.values(counters.blocked_cycles).reduce((a, b) => a + b, 0);
    return [name, count(counters.instructions), shareBar(counters.busy_cycles / cycles), percent(blocked / cycles), percent(counters.idle_cycles / cycles), causes.map(([cause, value]) => `${cause} ${percent(value / cycles)}`).join(", ")];
  });
  return table(["engine", ">instructions", "busy", ">blocked", ">idle", "blocked by"], rows);
}

function boundTable() {
  const of = program();
  const rows = [];
  if (of.bound) {
    for (const [name, cycles] of Object.entries(of.bound.resources)) rows.push([`least work: ${name}`, count(cycles), shareBar(cycles / of.report.cycles)]);
    rows.push([`lower bound (launch + ${of.bound.resource})`, count(of.bound.cycles), shareBar(of.bound.cycles / of.report.cycles)]);
  }
  for (const [cause, cycles] of Object.entries(of.lost)) rows.push([`beyond it: ${cause}`, count(cycles), shareBar(cycles / of.report.cycles)]);
  return table(["", ">cycles", "of the time"], rows);
}

tabs.push({
  name: "overview", title: "Overview",
  make(section) {
    const metric = el("select", { id: "metric", onchange: () => this.update(section, new Set(["program"])) }, ...METRICS.map((m, n) => el("option", { value: n }, m.name)));
    section.append(el("div", { class: "cards" },
      el("div", { class: "card", style: "grid-column:span 5" }, el("div", { class: "bar" }, el("h2", {}, "Mesh"), metric), el("div", { class: "chart", id: "mesh", style: "height:330px" }), el("p", { class: "note", id: "mesh-note" })),
      el("div", { class: "card", style: "grid-column:span 7" }, el("h2", {}, "Roofline ", el("small", {}, "a dot per group, as large as its share of the time, coloured by its bound; ◆ the whole program, △ its lower bound")), el("div", { class: "chart", id: "roofline", style: "height:340px" }), el("p", { class: "note", id: "roofline-note" })),
      el("div", { class: "card", style: "grid-column:span 7" }, el("h2", {}, "Engines ", el("small", {}, "means over tiles")), el("div", { id: "engines" })),
      el("div", { class: "card", style: "grid-column:span 5" }, el("h2", {}, "Time and bound ", el("small", {}, "each by itself; they may overlap")), el("div", { id: "bound" })),
      el("div", { class: "card", style: "grid-column:span 12" }, el("h2", {}, "HLO instructions that take longest"), el("div", { id: "longest" })),
    ));
  },
  update(section, changed) {
    if (!["program", "group", "tab"].some((name) => changed.has(name))) return;
    const metric = METRICS[Number(section.querySelector("#metric").value)];
    drawMesh(section.querySelector("#mesh"), metric);
    section.querySelector("#mesh-note").textContent = metric.counted && !program().tile_bytes ? "Bytes by tile are not known: this program was followed without the native core." : `Over the whole run.${linkNote()}`;
    const missing = drawRoofline(section.querySelector("#roofline"));
    const dots = chart(section.querySelector("#roofline"));
    dots.off("click");
    dots.on("click", (point) => point.seriesName === "groups" && choose({ group: point.data.number }));
    section.querySelector("#roofline-note").textContent = (missing ? `${count(missing)} groups without operations or DDR bytes have no place here. ` : "") + "Operations and bytes are those the program does; the lower bound counts products and least bytes only.";
    section.querySelector("#engines").replaceChildren(engineTable());
    section.querySelector("#bound").replaceChildren(boundTable());
    const rows = program().instructions.slice(0, 12);
    section.querySelector("#longest").replaceChildren(table([">cycles", "share", "HLO instruction", "source", "bound", ">DDR bytes", ">operations"],
      rows.map((row) => [count(row.cycles), shareBar(row.share), row.name, row.source, row.bound, bytes(row["bytes accessed"]), scaled(row.flops, "")]),
      (n) => showSource(rows[n].source, rows[n].name)));
  },
});
