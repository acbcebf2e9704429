package lint

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/blang/semver/v4"

	"github.com/cnibake/cnibake/profiles"
)

// dataFiles hold what differs between Talos versions, each with its source and the day it was read.
//
//go:embed data
var dataFiles embed.FS

// facts are the decoded data files.
type facts struct {
	releases     []release
	flows        []flow
	paths        pathFacts
	labelPaths   []labelPath
	labelTypes   map[string]bool
	talosNames   map[string]string
	containerd   map[string][]containerdKey
	sharedDirs   map[string]bool
	criFileNames map[string]bool
}

// release is one Talos release.
type release struct {
	version    semver.Version
	kernel     string
	containerd line
}

// line is a release line such as 1.13.
type line struct{ major, minor uint64 }

func (l line) String() string { return fmt.Sprintf("%d.%d", l.major, l.minor) }

func (l line) before(other line) bool {
	return l.major < other.major || l.major == other.major && l.minor < other.minor
}

func lineOf(v semver.Version) line { return line{v.Major, v.Minor} }

func parseLine(text string) (line, error) {
	major, minor, ok := strings.Cut(text, ".")
	a, errA := strconv.ParseUint(major, 10, 16)
	b, errB := strconv.ParseUint(minor, 10, 16)

	if !ok || errA != nil || errB != nil {
		return line{}, fmt.Errorf("%q is not a release line", text)
	}

	return line{a, b}, nil
}

// UnmarshalText lets data files hold lines.
func (l *line) UnmarshalText(text []byte) (err error) {
	*l, err = parseLine(string(text))

	return err
}

// flow is one way into a Talos image, for some release lines.
type flow struct {
	Flow string `yaml:"flow"`
	From line   `yaml:"from"`
	To   line   `yaml:"to"`
	// Together makes one verdict of all lines.
	Together bool `yaml:"together"`
	// Release is set where the flow always judges for one release.
	Release string `yaml:"release"`
	Steps   []Step `yaml:"steps"`
}

type pathFacts struct {
	Source  string `yaml:"source"`
	Read    string `yaml:"read"`
	Allowed []struct {
		From     line     `yaml:"from"`
		Prefixes []string `yaml:"prefixes"`
	} `yaml:"allowed"`
	Shared      []string `yaml:"shared"`
	MergedFrom  line     `yaml:"mergedFrom"`
	Merged      []string `yaml:"merged"`
	MountedOver []string `yaml:"mountedOver"`
	CRIFiles    []string `yaml:"criFiles"`
	PluginDir   string   `yaml:"pluginDir"`
}

// labelPath says which SELinux type Talos gives to paths.
type labelPath struct {
	pattern *regexp.Regexp
	exact   bool
	length  int
	typ     string
}

type containerdKey struct {
	key   []string
	since line
}

// loadFacts decodes the data files once.
var loadFacts = sync.OnceValues(func() (*facts, error) {
	f := &facts{labelTypes: make(map[string]bool), talosNames: make(map[string]string), containerd: make(map[string][]containerdKey)}

	for _, load := range []func() error{f.loadReleases, f.loadFlows, f.loadPaths, f.loadLabels, f.loadNames, f.loadContainerd} {
		if err := load(); err != nil {
			return nil, err
		}
	}

	return f, nil
})

func (f *facts) loadReleases() error {
	return readTable("releases.tsv", []string{"release", "kernel", "containerd"}, func(row []string) error {
		v, err := semver.Parse(strings.TrimPrefix(row[0], "v"))
		if err != nil {
			return err
		}

		if n := len(f.releases); n > 0 && !f.releases[n-1].version.LT(v) {
			return fmt.Errorf("%s is not newer than the row before", row[0])
		}

		containerd, err := parseLine(row[2])
		f.releases = append(f.releases, release{version: v, kernel: strings.TrimPrefix(row[1], "-"), containerd: containerd})

		return err
	})
}

func (f *facts) loadFlows() error {
	var file struct {
		Source string `yaml:"source"`
		Read   string `yaml:"read"`
		Flows  []flow `yaml:"flows"`
	}

	if err := readYAML("flows.yaml", &file); err != nil {
		return err
	}

	for _, flow := range file.Flows {
		for _, step := range flow.Steps {
			if !slices.Contains(steps, step) {
				return fmt.Errorf("data/flows.yaml: %s has an unknown step %q", flow.Flow, step)
			}
		}
	}

	f.flows = file.Flows

	return nil
}

func (f *facts) loadPaths() error {
	if err := readYAML("paths.yaml", &f.paths); err != nil {
		return err
	}

	f.sharedDirs, f.criFileNames = setOf(f.paths.Shared), setOf(f.paths.CRIFiles)

	return nil
}

func (f *facts) loadLabels() error {
	err := readTable("selinux-paths.tsv", []string{"path_regex", "type"}, func(row []string) error {
		pattern, err := regexp.Compile("^" + row[0] + "$")
		if err != nil {
			return err
		}

		exact := !strings.Contains(row[0], "(/.*)?")
		f.labelPaths = append(f.labelPaths, labelPath{pattern, exact, len(row[0]), row[1]})

		return nil
	})
	if err != nil {
		return err
	}

	return readTable("selinux-types.tsv", []string{"type"}, func(row []string) error {
		f.labelTypes[row[0]] = true

		return nil
	})
}

func (f *facts) loadNames() error {
	return readTable("sbom-names.tsv", []string{"kind", "name"}, func(row []string) error {
		f.talosNames[row[1]] = row[0]

		return nil
	})
}

func (f *facts) loadContainerd() error {
	return readTable("containerd-keys.tsv", []string{"plugin", "key", "since"}, func(row []string) error {
		since, err := parseLine(row[2])
		f.containerd[row[0]] = append(f.containerd[row[0]], containerdKey{strings.Split(row[1], "."), since})

		return err
	})
}

// within returns the releases of the lines, oldest first.
func (f *facts) within(from, to line) []release {
	var found []release

	for _, r := range f.releases {
		if l := lineOf(r.version); !l.before(from) && !to.before(l) {
			found = append(found, r)
		}
	}

	return found
}

// clamp makes the newest known line of one that is newer: what is known last is the best guess.
func (f *facts) clamp(l line) line {
	if newest := lineOf(f.releases[len(f.releases)-1].version); newest.before(l) {
		return newest
	}

	return l
}

// lookup returns what is known of a release. Of one that is not in the table, the newest known release of
// its line, or else the newest of all, stands in, without its kernel.
func (f *facts) lookup(v semver.Version) release {
	found := f.releases[len(f.releases)-1]
	found.kernel = ""

	for _, r := range f.releases {
		if r.version.EQ(v) {
			return r
		}

		if lineOf(r.version) == lineOf(v) {
			found = release{containerd: r.containerd}
		}
	}

	found.version = v

	return found
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}

	return set
}

func readYAML(name string, v any) error {
	data, err := dataFiles.ReadFile("data/" + name)
	if err != nil {
		return err
	}

	return profiles.DecodeStrict("data/"+name, data, v)
}

// readTable calls row for every line of a table of tab-separated values; lines with # are comments.
func readTable(name string, header []string, row func([]string) error) error {
	data, err := dataFiles.ReadFile("data/" + name)
	if err != nil {
		return err
	}

	seenHeader := false

	for i, text := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if strings.HasPrefix(text, "#") {
			continue
		}

		fields := strings.Split(text, "\t")

		switch {
		case len(fields) != len(header) || slices.Contains(fields, ""):
			return fmt.Errorf("data/%s: line %d has not %d fields", name, i+1, len(header))
		case !seenHeader && !slices.Equal(fields, header):
			return fmt.Errorf("data/%s: line %d is not the header", name, i+1)
		case !seenHeader:
			seenHeader = true
		default:
			if err := row(fields); err != nil {
				return fmt.Errorf("data/%s: line %d: %w", name, i+1, err)
			}
		}
	}

	return nil
}
