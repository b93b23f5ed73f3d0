// Puts styles and script into page.html and writes dist/report.html, the file the program carries.
//   node build.mjs            write it
//   node build.mjs --check    fail when it is not what the sources give
import { build } from "esbuild";
import { mkdir, readFile, writeFile } from "node:fs/promises";

const here = (path) => new URL(path, import.meta.url).pathname;

async function bundle(entry) {
  const result = await build({
    entryPoints: [here(entry)],
    absWorkingDir: here("."),
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2021",
    charset: "utf8",
    legalComments: "none",
  });
  return result.outputFiles[0].text.trim();
}

const styles = await bundle("src/style.css");
const script = (await bundle("src/main.ts")).replaceAll("</script", "<\\/script");
const template = await readFile(here("page.html"), "utf8");
const page = template
  .replace("/*STYLE*/", () => styles)
  .replace("/*SCRIPT*/", () => script);

const target = here("dist/report.html");
if (process.argv.includes("--check")) {
  const found = await readFile(target, "utf8").catch(() => "");
  if (found !== page) {
    console.error("web/dist/report.html is not what the sources give: run 'npm run build' in web/");
    process.exit(1);
  }
} else {
  await mkdir(here("dist"), { recursive: true });
  await writeFile(target, page);
  console.log(`dist/report.html: ${(page.length / 1000).toFixed(0)} kB`);
}
