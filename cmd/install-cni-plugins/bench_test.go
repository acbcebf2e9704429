package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// shellLoop is what people stage with today; it verifies nothing.
const shellLoop = `for f in "$1"/*; do n=${f##*/}; cp "$f" "$2/.tmp.$n" && chmod 0755 "$2/.tmp.$n" && mv -f "$2/.tmp.$n" "$2/$n" || exit 1; done`

// BenchmarkAgainstShellLoop stages the plugins in upstream's size, by the program and by a shell
// loop, in turns and on one file system. It reports medians in milliseconds, and the ratios that
// the program is held to: a first staging against the loop with equal durability (at most 1.1),
// and a run with nothing to do against the bare loop (at most 0.33), with the plugins in the page
// cache, as they are on a node that uses them. Run it with -benchtime 15x on an idle machine.
func BenchmarkAgainstShellLoop(b *testing.B) {
	p := place{source: testplugins.Payload(b, testplugins.Unstripped)}
	bin := binary(b)

	ways := []struct {
		name string
		// prepare readies the directories; nil leaves them as the way before did.
		prepare func()
		command func() *exec.Cmd
	}{
		{"loop", func() { p.empty(b) }, func() *exec.Cmd { return exec.Command("sh", "-c", shellLoop, "sh", p.source, p.dest) }},
		{"loop+sync", func() { p.empty(b) }, func() *exec.Cmd {
			return exec.Command("sh", "-c", shellLoop+`; sync -f "$2"`, "sh", p.source, p.dest)
		}},
		{"first", func() { p.empty(b) }, func() *exec.Cmd { return exec.Command(bin, p.args("--strict")...) }},
		{"noop-uncached", nil, func() *exec.Cmd { return exec.Command(bin, p.args("--strict")...) }},
		{"noop", func() { read(b, p.dest) }, func() *exec.Cmd { return exec.Command(bin, p.args("--strict")...) }},
	}

	times := make([][]time.Duration, len(ways))

	for range b.N {
		for i, w := range ways {
			if w.prepare != nil {
				w.prepare()
			}

			read(b, p.source)

			cmd := w.command()
			start := time.Now()

			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%s: %v: %s", w.name, err, out)
			}

			times[i] = append(times[i], time.Since(start))
		}
	}

	median := map[string]float64{}

	for i, w := range ways {
		slices.Sort(times[i])
		median[w.name] = float64(times[i][len(times[i])/2].Microseconds()) / 1000
		b.ReportMetric(median[w.name], w.name+"-ms")
	}

	b.ReportMetric(0, "ns/op") // means nothing here
	b.ReportMetric(median["first"]/median["loop+sync"], "first/loop+sync")
	b.ReportMetric(median["first"]/median["loop"], "first/loop")
	b.ReportMetric(median["noop"]/median["loop"], "noop/loop")
}

// empty gives the place new directories, with everything on disk that was written before.
func (p *place) empty(b *testing.B) {
	b.Helper()

	p.dest, p.state = b.TempDir(), b.TempDir()

	if out, err := exec.Command("sync", "-f", p.dest).CombinedOutput(); err != nil {
		b.Fatalf("sync: %v: %s", err, out)
	}
}

// read brings a directory's files into the page cache.
func read(b *testing.B, dir string) {
	b.Helper()

	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}

	for _, e := range entries {
		if _, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			b.Fatal(err)
		}
	}
}
