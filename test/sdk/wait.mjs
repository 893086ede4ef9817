// Waits up to 20 s for an address to answer with success.
const [url] = process.argv.slice(2);
const until = Date.now() + 20_000;
for (;;) {
  const ok = await fetch(url, { signal: AbortSignal.timeout(2_000) }).then((res) => res.ok, () => false);
  if (ok) process.exit(0);
  if (Date.now() > until) process.exit(1);
  await new Promise((done) => setTimeout(done, 50));
}
