// SPDX-License-Identifier: Apache-2.0
// Draws the panels of a Grafana dashboard with Grafana's own components, out of Prometheus' answers.
// window.INPUT has the dashboard, the answers by panel id, the time range, the theme and the width.

import "@fontsource/inter/400.css";
import "@fontsource/inter/500.css";
import {
  FieldType,
  ThemeContext,
  VizOrientation,
  createDataFrame,
  createTheme,
  dateTime,
  getDisplayProcessor,
  getFieldDisplayValues,
} from "@grafana/data";
import { BigValue, GlobalStyles, PanelChrome, TimeSeries, VizRepeater } from "@grafana/ui";
import { createRoot } from "react-dom/client";

const { dashboard, answers, from, to, step, width, mode } = window.INPUT;
const theme = createTheme({ colors: { mode } });
const COLUMNS = 24;
const CELL = 30;
const GAP = 8;
const RANGE = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: "now-10m", to: "now" } };

// What Grafana takes where a dashboard says nothing.
const THRESHOLDS = { mode: "absolute", steps: [{ value: -Infinity, color: "green" }, { value: 80, color: "red" }] };
const CUSTOM = {
  drawStyle: "line",
  lineInterpolation: "linear",
  lineWidth: 1,
  fillOpacity: 0,
  gradientMode: "none",
  pointSize: 5,
  showPoints: "auto",
  spanNulls: false,
  axisPlacement: "auto",
  axisColorMode: "text",
  scaleDistribution: { type: "linear" },
  stacking: { mode: "none", group: "A" },
  hideFrom: { tooltip: false, viz: false, legend: false },
  thresholdsStyle: { mode: "off" },
};
const COLOR = { stat: "thresholds", timeseries: "palette-classic" };

const named = (format, labels) => format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => labels[label] ?? "");
const plain = (labels) => `{${Object.entries(labels).map(([key, value]) => `${key}="${value}"`).join(", ")}}`;

function set(config, path, value) {
  const keys = path.split(".");
  const last = keys.pop();
  keys.reduce((inner, key) => (inner[key] ??= {}), config)[last] = value;
}

function matches({ id, options }, name, refId) {
  if (id === "byName") return options === name;
  if (id === "byFrameRefID") return options === refId;
  if (id === "byRegexp") return new RegExp(options.replace(/^\/|\/$/g, "")).test(name);
  throw new Error(`no matcher ${id} here`);
}

function configured(panel, name, refId) {
  const defaults = structuredClone(panel.fieldConfig.defaults);
  defaults.thresholds?.steps.forEach((one) => (one.value ??= -Infinity));
  const config = {
    color: { mode: COLOR[panel.type] },
    thresholds: THRESHOLDS,
    ...defaults,
    custom: { ...structuredClone(CUSTOM), ...defaults.custom },
    displayNameFromDS: name,
    interval: step * 1000,
  };
  for (const { matcher, properties } of panel.fieldConfig.overrides ?? []) {
    if (!matches(matcher, name, refId)) continue;
    for (const { id, value } of properties) set(config, id, value);
  }
  return config;
}

function frame(panel, target, { metric, values }, index) {
  const name = target.legendFormat ? named(target.legendFormat, metric) : plain(metric);
  const known = new Map(values.map(([time, text]) => [Math.round(time), Number(text)]));
  const times = [];
  for (let time = from; time <= to; time += step) times.push(time);
  const field = {
    name: "Value",
    type: FieldType.number,
    labels: metric,
    values: times.map((time) => known.get(time) ?? null),
    config: configured(panel, name, target.refId),
    state: { displayName: name, seriesIndex: index },
  };
  field.display = getDisplayProcessor({ field, theme });
  const time = { name: "Time", type: FieldType.time, values: times.map((one) => one * 1000), config: {} };
  const made = createDataFrame({ refId: target.refId, name, fields: [time, field] });
  made.fields[1].display = field.display;
  made.fields[1].state = field.state;
  return made;
}

function framesOf(panel) {
  let index = 0;
  return panel.targets.flatMap((target, at) =>
    answers[panel.id][at].map((series) => frame(panel, target, series, index++)),
  );
}

function Stat({ panel, frames, width, height }) {
  const options = panel.options ?? {};
  const values = () =>
    getFieldDisplayValues({
      fieldConfig: panel.fieldConfig,
      reduceOptions: { calcs: ["lastNotNull"], values: false, ...options.reduceOptions },
      replaceVariables: (text) => text,
      theme,
      data: frames,
      sparkline: (options.graphMode ?? "area") !== "none",
      timeZone: "utc",
    });
  const drawn = ({ value, width, height, count }) => (
    <BigValue
      value={value.display}
      count={count}
      sparkline={value.sparkline}
      colorMode={options.colorMode ?? "value"}
      graphMode={options.graphMode ?? "area"}
      justifyMode={options.justifyMode ?? "auto"}
      textMode={options.textMode ?? "auto"}
      wideLayout={options.wideLayout ?? true}
      width={width}
      height={height}
      theme={theme}
    />
  );
  return (
    <VizRepeater
      getValues={values}
      renderValue={drawn}
      width={width}
      height={height}
      source={frames}
      itemSpacing={3}
      renderCounter={0}
      autoGrid={true}
      orientation={options.orientation ?? VizOrientation.Auto}
    />
  );
}

function Lines({ panel, frames, width, height }) {
  const legend = { displayMode: "list", placement: "bottom", showLegend: true, calcs: [], ...panel.options?.legend };
  if (!frames.length) return <div>No data</div>;
  return (
    <TimeSeries
      frames={frames}
      structureRev={1}
      timeRange={RANGE}
      timeZone="utc"
      width={width}
      height={height}
      legend={legend}
      options={panel.options ?? {}}
    />
  );
}

function Panel({ panel }) {
  const column = (width - GAP * (COLUMNS + 1)) / COLUMNS;
  const { x, y, w, h } = panel.gridPos;
  const size = { width: w * (column + GAP) - GAP, height: h * (CELL + GAP) - GAP };
  const place = { position: "absolute", left: GAP + x * (column + GAP), top: GAP + y * (CELL + GAP) };
  const frames = panel.type === "row" ? [] : framesOf(panel);
  const Content = { stat: Stat, timeseries: Lines }[panel.type];
  if (panel.type === "row")
    return <h4 style={{ ...place, margin: 0, lineHeight: `${CELL}px` }}>{panel.title}</h4>;
  return (
    <div style={place}>
      <PanelChrome title={panel.title} description={panel.description} {...size}>
        {(innerWidth, innerHeight) => (
          <Content panel={panel} frames={frames} width={innerWidth} height={innerHeight} />
        )}
      </PanelChrome>
    </div>
  );
}

const bottom = Math.max(...dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
const page = { position: "relative", width, height: GAP + bottom * (CELL + GAP), background: theme.colors.background.canvas };
document.fonts.load("14px Inter").then(() =>
  createRoot(document.getElementById("page")).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={page}>
        {dashboard.panels.map((panel) => (
          <Panel key={panel.id} panel={panel} />
        ))}
      </div>
    </ThemeContext.Provider>,
  ),
);
