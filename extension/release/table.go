package release

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/semver"
)

// The tables are written by hack/refresh-releases.
//
//go:embed data
var dataFiles embed.FS

// Row is what one release of a writer carries.
type Row struct {
	Release string
	// Plugins is the version of containernetworking/plugins.
	Plugins string
	// Origin is what the version was read from; for Talos the siderolabs/pkgs reference it builds from.
	Origin string
	// Inferred is set where the version was concluded rather than read.
	Inferred bool
}

// Table lists the releases of a writer, oldest first.
type Table struct {
	Writer string
	// Refreshed is the day the table was compared with its sources, as in 2026-11-29.
	Refreshed string
	Rows      []Row
}

// Lookup returns the row of a release.
func (t Table) Lookup(release string) (Row, bool) {
	i := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Release == release })
	if i < 0 {
		return Row{}, false
	}

	return t.Rows[i], true
}

// Newest returns the newest release of the table.
func (t Table) Newest() string {
	if len(t.Rows) == 0 {
		return ""
	}

	return t.Rows[len(t.Rows)-1].Release
}

// Carrying returns the releases that carry a version of the plugins, without pre-releases, as ranges of
// neighbours in the table.
func (t Table) Carrying(plugins string) []string {
	var (
		ranges      []string
		first, last string
	)

	end := func() {
		switch first {
		case "":
		case last:
			ranges = append(ranges, first)
		default:
			ranges = append(ranges, first+" to "+last)
		}

		first = ""
	}

	for _, row := range t.Rows {
		switch {
		case semver.Prerelease(row.Release) != "":
		case row.Plugins != plugins:
			end()
		default:
			if first == "" {
				first = row.Release
			}

			last = row.Release
		}
	}

	end()

	return ranges
}

// LoadTable returns the embedded table of a writer; it has no rows when there is none.
func LoadTable(writer string) (Table, error) {
	load, ok := tables[writer]
	if !ok {
		return Table{Writer: writer}, nil
	}

	return load()
}

var tables = map[string]func() (Table, error){
	Talos:   sync.OnceValues(func() (Table, error) { return readTable(Talos) }),
	KubeOVN: sync.OnceValues(func() (Table, error) { return readTable(KubeOVN) }),
}

// tableHeader is the first line of every table that is no comment.
const tableHeader = "release\tplugins\torigin\tstate"

func readTable(writer string) (Table, error) {
	name := "data/" + writer + ".tsv"

	data, err := dataFiles.ReadFile(name)
	if err != nil {
		return Table{}, err
	}

	table, err := parseTable(writer, string(data))
	if err != nil {
		return Table{}, fmt.Errorf("%s: %w", name, err)
	}

	return table, nil
}

func parseTable(writer, data string) (Table, error) {
	table := Table{Writer: writer}
	seenHeader := false

	for i, line := range strings.Split(strings.TrimSuffix(data, "\n"), "\n") {
		if date, ok := strings.CutPrefix(line, "# refreshed: "); ok {
			table.Refreshed = date
		}

		switch {
		case strings.HasPrefix(line, "#"):
		case !seenHeader && line != tableHeader:
			return Table{}, fmt.Errorf("line %d is not the header", i+1)
		case !seenHeader:
			seenHeader = true
		default:
			row, err := parseRow(line)
			if err != nil {
				return Table{}, fmt.Errorf("line %d: %w", i+1, err)
			}

			if n := len(table.Rows); n > 0 && semver.Compare(table.Rows[n-1].Release, row.Release) >= 0 {
				return Table{}, fmt.Errorf("line %d: %s is not newer than the row before", i+1, row.Release)
			}

			table.Rows = append(table.Rows, row)
		}
	}

	if table.Refreshed == "" || len(table.Rows) == 0 {
		return Table{}, errors.New("no date of the last refresh, or no rows")
	}

	return table, nil
}

func parseRow(line string) (Row, error) {
	fields := strings.Split(line, "\t")

	const columns = 4
	if len(fields) != columns || slices.Contains(fields, "") {
		return Row{}, fmt.Errorf("not %d fields", columns)
	}

	row := Row{Release: fields[0], Plugins: fields[1], Origin: fields[2], Inferred: fields[3] == "inferred"}

	switch {
	case !IsVersion(row.Release) || !IsVersion(row.Plugins):
		return Row{}, errors.New("release or plugins is not a version")
	case !row.Inferred && fields[3] != "read":
		return Row{}, fmt.Errorf("state %q is neither read nor inferred", fields[3])
	}

	return row, nil
}
