package extension

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/blang/semver/v4"
)

// driverUses says which plugin needs a driver that Talos does not always have, and for what.
var driverUses = []struct{ driver, plugin, loss string }{
	{"vrf", "vrf", "the vrf plugin cannot make an interface"},
	{"ifb", "bandwidth", "the bandwidth plugin cannot limit what a pod sends"},
}

// driverState is how a kernel has a driver.
type driverState string

const (
	driverBuiltin driverState = "builtin"
	driverModule  driverState = "module"
	driverAbsent  driverState = "absent"
)

// driverRow lists the drivers of one Talos release.
type driverRow struct {
	version semver.Version
	states  map[string]driverState
}

// MachinePatch is what a node needs beside the image.
type MachinePatch struct {
	// YAML is a patch for the machine configuration; empty when no driver has to be loaded.
	YAML []byte
	// Warnings name the drivers that do not exist in the release, and what is not known of it.
	Warnings []string
}

// Drivers returns the patch of the machine configuration that loads the drivers plugins need on a Talos
// release. Talos does not load modules when they are asked for, so they have to be listed.
func Drivers(talos string) (MachinePatch, error) {
	version, err := ParseTalos(talos)
	if err != nil {
		return MachinePatch{}, err
	}

	rows, err := driverTable()
	if err != nil {
		return MachinePatch{}, err
	}

	row, known := nearest(rows, version)

	var patch MachinePatch
	if !known {
		patch.Warnings = append(patch.Warnings, fmt.Sprintf("the drivers of Talos v%s are not known here; those of v%s are taken instead", version, row.version))
	}

	type module struct {
		Name string `yaml:"name"`
	}

	var modules []module

	for _, use := range driverUses {
		switch row.states[use.driver] {
		case driverModule:
			modules = append(modules, module{use.driver})
		case driverAbsent:
			warning := fmt.Sprintf("the kernel of Talos v%s has no %s: %s", row.version, use.driver, use.loss)
			if later, ok := firstWith(rows, row.version, use.driver); ok {
				warning += fmt.Sprintf("; v%s has it", later)
			}

			patch.Warnings = append(patch.Warnings, warning)
		}
	}

	if len(modules) == 0 {
		return patch, nil
	}

	patch.YAML, err = encodeYAML(map[string]any{"machine": map[string]any{"kernel": map[string]any{"modules": modules}}})

	return patch, err
}

// nearest returns the release's row, or the newest one that is not newer, or the oldest.
func nearest(rows []driverRow, version semver.Version) (driverRow, bool) {
	found := rows[0]

	for _, row := range rows {
		if row.version.EQ(version) {
			return row, true
		}

		if row.version.LT(version) && row.version.GT(found.version) {
			found = row
		}
	}

	return found, false
}

// firstWith returns the first later release that has the driver, of the same line if any.
func firstWith(rows []driverRow, version semver.Version, driver string) (semver.Version, bool) {
	var (
		first semver.Version
		ok    bool
	)

	for _, row := range rows {
		if row.states[driver] == driverAbsent || !row.version.GT(version) {
			continue
		}

		sameLine := row.version.Major == version.Major && row.version.Minor == version.Minor
		if !ok || sameLine && first.Minor != version.Minor {
			first, ok = row.version, true
		}
	}

	return first, ok
}

var driverTable = sync.OnceValues(func() ([]driverRow, error) {
	const name = "data/kernel-drivers.tsv"

	data, err := talosData.ReadFile(name)
	if err != nil {
		return nil, err
	}

	var (
		header []string
		rows   []driverRow
	)

	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		fields := strings.Split(line, "\t")

		switch {
		case strings.HasPrefix(line, "#"):
		case header == nil:
			header = fields
		default:
			row, err := parseDriverRow(header, fields)
			if err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", name, i+1, err)
			}

			rows = append(rows, row)
		}
	}

	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no rows", name)
	}

	return rows, nil
})

func parseDriverRow(header, fields []string) (driverRow, error) {
	if len(fields) != len(header) {
		return driverRow{}, fmt.Errorf("%d fields instead of %d", len(fields), len(header))
	}

	version, err := ParseTalos(fields[0])
	if err != nil {
		return driverRow{}, err
	}

	row := driverRow{version: version, states: make(map[string]driverState)}

	for i, name := range header[1:] {
		switch state := driverState(fields[i+1]); state {
		case driverBuiltin, driverModule, driverAbsent:
			row.states[name] = state
		default:
			return driverRow{}, errors.New("a driver is builtin, module or absent")
		}
	}

	return row, nil
}
