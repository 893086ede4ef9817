// Usage: node check.mjs HOLDFAST SERVER31 FOLDER
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [holdfast, office, work] = process.argv.slice(2);
const server = (name) => ["node", join("node_modules", "@modelcontextprotocol", `server-${name}`, "dist", "index.js")];
let passed = 0, failed = 0;

function check(what, ok, detail) {
  if (ok) { passed++; return; }
  failed++;
  console.error(`FAIL ${what}`, detail === undefined ? "" : JSON.stringify(detail, null, 1));
}

// run gives the exit status and what was printed.
function run(args, env = {}) {
  return new Promise((resolve) => {
    const child = spawn(holdfast, ["mcp", "audit", ...args], { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
    let out = "", err = "";
    child.stdout.on("data", (d) => (out += d));
    child.stderr.on("data", (d) => (err += d));
    child.on("close", (code) => resolve({ code, out, err }));
  });
}

const byName = (report) => Object.fromEntries(report.tools.map((t) => [t.name, t]));

async function auditReport(flags, command, env) {
  const r = await run(["--json", "--settle", "300ms", "--late", "2s", ...flags, "--", ...command], env);
  check(`${command.at(-1)}: exit status 1 for findings`, r.code === 1, r);
  return JSON.parse(r.out);
}

const audit = async (...args) => byName(await auditReport(...args));

// finds reports whether any probe of the tool came to the verdict.
const finds = (tool, verdict) => tool?.findings.some((f) => f.verdict === verdict);

function expect(tools, name, verdict) {
  check(`${name}: ${verdict}`, finds(tools[name], verdict), tools[name]);
}

async function filesystem() {
  const dir = join(work, "files");
  mkdirSync(dir);
  const tools = await audit(["--allow-writes"], [...server("filesystem"), dir]);
  check("edit_file is a duplicate effect", tools.edit_file?.verdict === "duplicate effect", tools.edit_file);
  check("edit_file loses writes", finds(tools.edit_file, "lost write"), tools.edit_file);
  check("move_file answers an error on repeat", tools.move_file?.verdict === "error on repeat", tools.move_file);
  check("write_file is safe", tools.write_file?.verdict === "safe", tools.write_file);
  check("create_directory is safe", tools.create_directory?.verdict === "safe", tools.create_directory);
  check("only write tools are audited", Object.keys(tools).length === 4, Object.keys(tools));
}

async function memory() {
  const tools = await audit(["--allow-writes"], server("memory"), { MEMORY_FILE_PATH: join(work, "memory.jsonl") });
  for (const name of ["create_entities", "create_relations", "add_observations"]) {
    expect(tools, name, "answer differs");
    expect(tools, name, "lost write");
    check(`${name} has no duplicate effect`, !finds(tools[name], "duplicate effect"), tools[name]);
  }
  expect(tools, "delete_entities", "lost write");
  expect(tools, "delete_relations", "lost write");
}

async function everything() {
  const tools = await audit(["--allow-writes", "--args", "everything.json"], server("everything"));
  expect(tools, "toggle-simulated-logging", "answer differs");
  expect(tools, "toggle-subscriber-updates", "answer differs");
  check("gzip-file-as-resource is safe", tools["gzip-file-as-resource"]?.verdict === "safe", tools["gzip-file-as-resource"]);
  const query = tools["simulate-research-query"];
  check("a tool that needs a task cannot be told", query?.verdict === "cannot tell" && query.says.includes("--args"), query);
}

// A reset before each tool: nothing of one tool's writes is there for the next.
async function reset() {
  const dir = join(work, "reset");
  mkdirSync(dir);
  writeFileSync(join(dir, "kept.txt"), "kept\n");
  const seen = join(work, "seen.txt"); // what each reset found
  const command = `ls '${dir}' >> '${seen}' && find '${dir}' -mindepth 1 ! -name kept.txt -delete`;
  const tools = await audit(["--reset", command, "--tool", "edit_file", "--tool", "write_file"], [...server("filesystem"), dir]);
  check("edit_file is found with --reset", tools.edit_file?.verdict === "duplicate effect", tools.edit_file);
  const removed = readFileSync(seen, "utf8").split("\n").filter((name) => name.startsWith("holdfast-audit-"));
  const left = readdirSync(dir);
  check("the second tool's run is all that is left", removed.length > 0 && left.includes("kept.txt") && !left.some((name) => removed.includes(name)), { removed, left });
}

// The same audit with the proxy between: what one call does, its repeat does not do again.
async function throughProxy() {
  const dir = join(work, "proxied");
  mkdirSync(dir);
  const report = await auditReport(["--allow-writes", "--through-proxy", "--tool", "edit_file", "--tool", "move_file"], [...server("filesystem"), dir]);
  const before = byName(report), after = byName(report.through_proxy);
  check("edit_file is a duplicate effect without the proxy", before.edit_file?.verdict === "duplicate effect", before.edit_file);
  check("edit_file twice through the proxy has one effect", !finds(after.edit_file, "duplicate effect") && after.edit_file?.findings.some((f) => f.probe === "twice in sequence" && f.verdict === "safe"), after.edit_file);
  check("move_file misleads without the proxy", before.move_file?.verdict === "error on repeat", before.move_file);
  // A call that is cancelled while this server runs it is never answered: its outcome is unknown, and its repeat is told so (semantics 40).
  const misleads = (f) => f.verdict === "error on repeat" && f.probe !== "given up while it ran, then again";
  check("move_file is answered as the first time through the proxy", !after.move_file?.findings.some(misleads), after.move_file);
}

// A server whose faults are known beforehand: no tool is accused wrongly, and none gets away.
async function faults() {
  const expected = JSON.parse(readFileSync("../mcp/server31/testdata/expected.json"));
  const report = await auditReport(["--allow-writes"], [office]);
  const tools = byName(report);
  for (const [name, want] of Object.entries(expected)) {
    check(`${name}: ${want.verdicts.join(" or ")}, not ${tools[name]?.verdict}`, want.verdicts.includes(tools[name]?.verdict), tools[name]);
  }
  for (const name of Object.keys(tools)) check(`${name} is a write tool`, name in expected, tools[name]);
  console.log(`the office's ${report.tools.length} tools took ${report.seconds} s`);
}

async function refusals() {
  const dir = join(work, "untouched");
  mkdirSync(dir);
  const r = await run(["--", ...server("filesystem"), dir]);
  check("writes are refused without leave", r.code === 2 && r.err.includes("--allow-writes") && readdirSync(dir).length === 0, r);
}

await Promise.all([filesystem(), memory(), everything(), reset(), throughProxy(), refusals()]);
await faults(); // alone: its faults are some milliseconds wide
console.log(`audit of real servers and of one with known faults: ${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
