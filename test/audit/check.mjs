// Usage: node check.mjs HOLDFAST FOLDER
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [holdfast, work] = process.argv.slice(2);
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

async function audit(flags, command, env) {
  const r = await run(["--json", "--settle", "300ms", "--late", "2s", ...flags, "--", ...command], env);
  check(`${command.at(-1)}: exit status 1 for findings`, r.code === 1, r);
  return Object.fromEntries(JSON.parse(r.out).tools.map((t) => [t.name, t]));
}

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
  const command = `find '${dir}' -mindepth 1 ! -name kept.txt -delete`;
  const tools = await audit(["--reset", command, "--tool", "edit_file", "--tool", "write_file"], [...server("filesystem"), dir]);
  check("edit_file is found with --reset", tools.edit_file?.verdict === "duplicate effect", tools.edit_file);
  check("the second tool's run is all that is left", readdirSync(dir).length < 12, readdirSync(dir));
}

async function refusals() {
  const dir = join(work, "untouched");
  mkdirSync(dir);
  const r = await run(["--", ...server("filesystem"), dir]);
  check("writes are refused without leave", r.code === 2 && r.err.includes("--allow-writes") && readdirSync(dir).length === 0, r);
}

await Promise.all([filesystem(), memory(), everything(), reset(), refusals()]);
console.log(`audit of real servers: ${passed} passed, ${failed} failed, 0 skipped`);
process.exit(failed ? 1 : 0);
