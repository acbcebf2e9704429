package release_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cnibake/cnibake/extension/release"
)

// What is recognised must be sound: whole versions, a writer that is known, reasons and evidence.
func FuzzRecognise(f *testing.F) {
	for _, test := range recognisable {
		f.Add([]byte(test.text))
	}

	f.Add([]byte(aliasBomb()))
	f.Add([]byte("&a [*a]"))
	f.Add([]byte("machine: &m {install: *m}"))

	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := release.Recognise("source", data)
		if err == nil && len(all) == 0 {
			t.Error("neither an error nor a statement")
		}

		for _, s := range all {
			check(t, s)
		}
	})
}

func check(t *testing.T, s release.Shipped) {
	t.Helper()

	for _, version := range []string{s.Release, s.Plugins} {
		if version != "" && (!release.IsVersion(version) || version[0] != 'v') {
			t.Errorf("%q is not a version: %+v", version, s)
		}
	}

	if s.Writer != "" && !slices.Contains(release.Writers(), s.Writer) {
		t.Errorf("writer %q", s.Writer)
	}

	if s.Release == "" && s.Why == "" {
		t.Errorf("no release and no reason: %+v", s)
	}

	if asked, err := s.WithWriter(""); err == nil {
		if _, err := release.Compare(release.Pinned{File: "x", Version: "v1.9.1"}, asked); err != nil {
			t.Error(err)
		}
	}
}

func FuzzReadSPDX(f *testing.F) {
	f.Add([]byte(`{"spdxVersion":"SPDX-2.3","packages":[` + cniPackage("v1.9.1") + `]}`))
	f.Add([]byte(recognisable["an SPDX document"].text))

	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := release.ReadSPDX(bytes.NewReader(data)); err == nil {
			check(t, s)

			if s.Plugins == "" {
				t.Error("no error and no version")
			}
		}
	})
}

func FuzzParseReference(f *testing.F) {
	f.Add("ghcr.io/siderolabs/installer:v1.13.9@" + digest)
	f.Add("factory.talos.dev/metal-installer/" + schematic + ":v1.13.9")

	f.Fuzz(func(t *testing.T, reference string) {
		if s, err := release.ParseReference(reference); err == nil {
			check(t, s)
		}
	})
}

// Whatever markers are read from can be written back, and reads as written.
func FuzzReadMarkers(f *testing.F) {
	f.Add([]byte(dockerfile))
	f.Add([]byte("ENV CNI_PLUGINS_VERSION \"v1.9.1\"\r\n// talos-cni-plugins-checked-against= '1.13.6'\r\n"))

	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := release.ReadMarkers("file", data)
		if err != nil {
			return
		}

		if !release.IsVersion(p.Version) || len(p.Markers) == 0 {
			t.Fatalf("%+v", p)
		}

		for _, marker := range p.Markers {
			changed, err := p.Moved(data, marker.Writer, "v99.99.99")
			if err != nil {
				continue
			}

			again, err := release.ReadMarkers("file", changed)
			if err != nil {
				t.Fatalf("%q became %q: %v", data, changed, err)
			}

			if m, _ := again.Marker(marker.Writer); m.Release != "v99.99.99" {
				t.Errorf("%q became %q: the marker is %s", data, changed, m.Release)
			}

			if bytes.Count(changed, []byte("\n")) != bytes.Count(data, []byte("\n")) {
				t.Errorf("%q became %q", data, changed)
			}
		}
	})
}
