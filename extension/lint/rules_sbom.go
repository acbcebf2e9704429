package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
)

const sbomDir = rootfsName + "/usr/local/share/spdx/"

var sbomRules = []Rule{
	{
		ID: "sbom-missing", Severity: Warning,
		Effect: "`talosctl get sboms` and scanners do not see what the extension brings (from 1.11 on); no node fails",
		tree: func(s *scope) {
			if s.tree.hasFiles() && len(s.tree.sboms) == 0 {
				s.found("", "there is no *.spdx.json in /usr/local/share/spdx")
			}
		},
	},
	{
		ID: "sbom-unreadable", Severity: Error,
		Effect: `the node's SBOM controller fails with "failed to decode SBOM file" and lists nothing after this file (from 1.11 on)`,
		tree: func(s *scope) {
			for _, b := range s.tree.sboms {
				if b.err != nil {
					s.found(b.entry.name, "%v", b.err)
				}
			}
		},
	},
	{
		ID: "sbom-not-spdx", Severity: Error,
		Effect: "Talos lists the packages, other readers of SPDX refuse the document (from 1.11 on)",
		tree: func(s *scope) {
			for _, b := range s.tree.sboms {
				if b.spdxErr != nil {
					s.found(b.entry.name, "%v", b.spdxErr)
				}
			}
		},
	},
	{
		ID: "sbom-name-taken", Severity: Error,
		Effect: "the package's name is the ID of a resource on the node: Talos's own entry of that name shows this extension's version (from 1.11 on)",
		tree:   func(s *scope) { s.takenNames("component") },
	},
	{
		ID: "sbom-module-taken", Severity: Warning,
		Effect: "a Go module that Talos lists too is one resource on the node: Talos's entry of that name shows this extension's version (from 1.11 on)",
		tree:   func(s *scope) { s.takenNames("module") },
	},
}

// sbom is one of the documents Talos reads.
type sbom struct {
	entry *entry
	// err says why Talos cannot read it; names are those of its packages, spdxErr what a stricter reader says.
	err     error
	names   []string
	spdxErr error
}

func readSBOMs(t *tree) []sbom {
	var sboms []sbom

	for name, e := range t.files {
		if path.Dir(name)+"/" == sbomDir && strings.HasSuffix(name, ".spdx.json") && e.isFile() {
			sboms = append(sboms, parseSBOM(e))
		}
	}

	slices.SortFunc(sboms, func(a, b sbom) int { return strings.Compare(a.entry.path, b.entry.path) })

	return sboms
}

// talosSPDX is the part of a document that Talos reads.
type talosSPDX struct {
	Packages []struct {
		Name         string `json:"name"`
		Version      string `json:"versionInfo"`
		License      string `json:"licenseDeclared"`
		ExternalRefs []struct {
			Type    string `json:"referenceType"`
			Locator string `json:"referenceLocator"`
		} `json:"externalRefs"`
	} `json:"packages"`
}

func parseSBOM(e *entry) sbom {
	if e.data == nil {
		return sbom{entry: e, err: fmt.Errorf("the document has more than %d bytes", maxSBOM)}
	}

	var document talosSPDX
	if err := json.NewDecoder(bytes.NewReader(e.data)).Decode(&document); err != nil {
		return sbom{entry: e, err: err}
	}

	parsed := sbom{entry: e, spdxErr: checkSPDX(e.data)}
	for _, p := range document.Packages {
		parsed.names = append(parsed.names, p.Name)
	}

	return parsed
}

func checkSPDX(data []byte) (err error) {
	defer recoverAs(&err)

	document, err := spdxjson.Read(bytes.NewReader(data))
	if err != nil {
		return err
	}

	switch {
	case document.DataLicense != spdx.DataLicense:
		return fmt.Errorf("the document's licence is %q, not %s", document.DataLicense, spdx.DataLicense)
	case document.DocumentName == "" || document.DocumentNamespace == "":
		return errors.New("the document has no name or no namespace")
	case document.CreationInfo == nil || len(document.CreationInfo.Creators) == 0:
		return errors.New("the document names no creator")
	case len(document.Packages) == 0:
		return errors.New("the document lists no package")
	}

	for _, p := range document.Packages {
		if p.PackageName == "" || p.PackageSPDXIdentifier == "" || p.PackageDownloadLocation == "" {
			return fmt.Errorf("package %q has no name, no identifier or no download location", p.PackageName)
		}
	}

	return spdxlib.ValidateDocument(document)
}

// takenNames reports the packages whose names Talos's own SBOM has, one finding for a document.
func (s *scope) takenNames(kind string) {
	for _, b := range s.tree.sboms {
		var taken []string

		for _, name := range b.names {
			if s.facts.talosNames[name] == kind && !slices.Contains(taken, name) {
				taken = append(taken, name)
			}
		}

		const shown = 5

		if n := len(taken); n > shown {
			s.found(b.entry.name, "%s and %d more", strings.Join(taken[:shown], ", "), n-shown)
		} else if n > 0 {
			s.found(b.entry.name, "%s", strings.Join(taken, ", "))
		}
	}
}
