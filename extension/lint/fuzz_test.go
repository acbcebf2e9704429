package lint

import (
	"bytes"
	"testing"

	"github.com/blang/semver/v4"
)

// FuzzTar holds that no archive makes lint panic, and that nothing in one reaches the report unfiltered.
func FuzzTar(f *testing.F) {
	a := good(f, "amd64")

	f.Add(a.bytes(f))
	f.Add(a.file(f, partDir+"10-tool.part", 0o644, plugin+`bin_dirs = ["/usr/local/bin"]`).bytes(f))
	f.Add(a.link(f, "/usr/lib/firmware/x", "y").link(f, "/usr/lib/firmware/y", "x").bytes(f))
	f.Add(gzipped(f, a.bytes(f)))

	facts := mustFacts(f)
	work := f.TempDir()

	f.Fuzz(func(t *testing.T, data []byte) {
		c := &contents{kind: KindTar}
		r := &reader{work: t.TempDir()}
		tr := &tree{}

		if err := r.readTree(t.Context(), bytes.NewReader(data), func(e *entry) { tr.entries = append(tr.entries, e) }); err != nil {
			c.problem("tar-damaged", "", "", "%v", err)
		}

		tr.finish()
		c.trees = append(c.trees, tr)

		for _, finding := range judge(c, facts, nil, "", work).Findings {
			if finding.Path != printable(finding.Path) || finding.Message != printable(finding.Message) {
				t.Errorf("%+v", finding)
			}
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(goodManifest))
	f.Add([]byte("version: v1alpha1\nmetadata: &a\n  compatibility: {talos: {version: '>=1 || <2 !3'}}\n"))

	work := f.TempDir()

	f.Fuzz(func(_ *testing.T, data []byte) {
		if len(data) > maxText {
			return
		}

		t := &tree{files: map[string]*entry{manifestName: {path: manifestName, typ: '0', data: data}}}

		m := loadManifest(t, work)
		if m.admits != nil {
			m.admits(semver.Version{Major: 1, Minor: 13})
		}
	})
}

// FuzzPart holds that neither a part nor a service or SBOM makes its parser panic.
func FuzzPart(f *testing.F) {
	f.Add([]byte(plugin + `bin_dirs = ["/usr/local/bin", 1, []]`))
	f.Add([]byte("name: agent\ncontainer: {entrypoint: x}\nrestart: always\ndepends: [{path: /x}]\n"))
	f.Add([]byte(sbomOf("tool")))

	facts := mustFacts(f)

	f.Fuzz(func(_ *testing.T, data []byte) {
		e := &entry{data: data}
		s := &scope{contents: &contents{}, facts: facts, counts: make(map[countKey]int), rule: &Rule{}}
		s.tree = &tree{parts: []part{parsePart(e)}, services: []service{parseService(e)}, sboms: []sbom{parseSBOM(e)}}

		for _, family := range [][]Rule{containerdRules, sbomRules} {
			for i := range family {
				s.rule = &family[i]
				s.rule.tree(s)
			}
		}
	})
}
