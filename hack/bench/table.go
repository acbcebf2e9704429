package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// table is one of the printed tables.
type table struct {
	title  string
	header []string
	rows   [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t table) print(w io.Writer) {
	fmt.Fprintf(w, "**%s**\n\n| %s |\n|%s\n", t.title, strings.Join(t.header, " | "), strings.Repeat("---|", len(t.header)))

	for _, row := range t.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}

	fmt.Fprintln(w)
}

func megabytes(n int64) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }

// String shows time and computing time.
func (u usage) String() string { return fmt.Sprintf("%s (%s)", duration(u.seconds), duration(u.cpu)) }

func duration(seconds float64) string {
	if seconds < 0.1 {
		return fmt.Sprintf("%.1f ms", seconds*1000)
	}

	return fmt.Sprintf("%.2f s", seconds)
}

func ratio[T int64 | float64](a, b T) string {
	r := float64(a) / float64(b)
	if r < 0.1 {
		return fmt.Sprintf("1 : %.0f", 1/r)
	}

	return fmt.Sprintf("%.2f", r)
}

// verdict says whether a figure meets its target.
func verdict[T int64 | float64](figure, most T, text string) string {
	if figure <= most {
		return text + ", met"
	}

	return text + ", **missed**"
}

// machine is the class of the machine, without its name.
func machine() string {
	model := runtime.GOARCH

	if file, err := os.Open("/proc/cpuinfo"); err == nil {
		defer file.Close()

		for lines := bufio.NewScanner(file); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)

				break
			}
		}
	}

	load := "unknown"
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(data), " ")
	}

	return fmt.Sprintf("%d cores of %s, %s, load average %s when done", runtime.NumCPU(), model, runtime.Version(), load)
}
