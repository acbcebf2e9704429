package doctor

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/profiles"
)

// What the doctor knows of our plugin set is what the pin says.
func TestCatalogIsThePins(t *testing.T) {
	t.Parallel()

	pin, err := profiles.LoadPin(profiles.DefaultPin)
	if err != nil {
		t.Fatal(err)
	}

	var names, reasons []string
	for _, p := range pin.Plugins {
		names = append(names, p.Name)
	}

	if diff := cmp.Diff(names, strings.Fields(carried)); diff != "" {
		t.Errorf("pin - doctor +:\n%s", diff)
	}

	for _, p := range pin.LeftOut {
		reasons = append(reasons, p.Name)

		if leftOut[p.Name].why == "" || leftOut[p.Name].instead == "" {
			t.Errorf("%s is left out (%s), which the doctor does not know", p.Name, p.Reason)
		}
	}

	for name := range leftOut {
		if !slices.Contains(reasons, name) {
			t.Errorf("%s is not left out", name)
		}
	}
}

// The drivers that the doctor knows are the columns of what is known of Talos's kernels.
func TestTalosHintIsTheTables(t *testing.T) {
	t.Parallel()

	data, err := os.ReadFile("../../../../extension/data/kernel-drivers.tsv")
	if err != nil {
		t.Fatal(err)
	}

	var header []string

	first := map[string]string{} // by minor line

	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")

		switch {
		case strings.HasPrefix(line, "#"):
		case header == nil:
			header = fields
		default:
			minor := fields[0][:strings.LastIndex(fields[0], ".")]
			if i := slices.Index(header, "ifb"); fields[i] != "absent" && first[minor] == "" {
				first[minor] = fields[0]
			}
		}
	}

	if diff := cmp.Diff(map[string]string{"v1.12": "v1.12.10", "v1.13": "v1.13.7"}, first); diff != "" {
		t.Errorf("the advice for ifb is out of date:\n%s", diff)
	}
}

// The table in the docs is that of the code.
func TestDocsListTheVerdicts(t *testing.T) {
	t.Parallel()

	data, err := os.ReadFile("../../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}

	var want strings.Builder

	for _, r := range Rules() {
		name := "`" + string(r.Verdict) + "`"
		if r.Warning {
			name += " (warning)"
		}

		want.WriteString("| " + name + " | " + r.Meaning + " | " + r.Remedy + " |\n")
	}

	if !strings.Contains(string(data), want.String()) {
		t.Errorf("docs/doctor.md lacks the table of verdicts, which is\n%s", want.String())
	}
}
