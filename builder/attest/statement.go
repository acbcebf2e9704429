package attest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/cosign/v2/pkg/types"
)

// Predicate types of the statements that are read and written here.
const (
	// Provenance says how an artifact was built (https://slsa.dev/spec/v1.0/provenance).
	Provenance = "https://slsa.dev/provenance/v1"
	// SPDX says what is in it. cosign calls it spdxjson.
	SPDX = "https://spdx.dev/Document"
	// signature is what a bundle about an image says when it is a signature and nothing more.
	signature = types.CosignSignPredicateType
)

const (
	statementV1 = "https://in-toto.io/Statement/v1"
	// cosign wraps predicates in the older version.
	statementV01 = "https://in-toto.io/Statement/v0.1"

	// maxStatement bounds a statement in bytes, far above any SBOM of ours (some 200 kB).
	maxStatement = 8 << 20
	// maxSubjects is how many subjects sigstore's own verifier looks at.
	maxSubjects = 1024
)

// Statement is an in-toto statement: a predicate about artifacts that are named by digest.
type Statement struct {
	Type          string          `json:"_type"`
	Subject       []Resource      `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate,omitempty"`
}

// Resource is an in-toto resource descriptor.
type Resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
	// Annotations are only ours to interpret: anything may be in them.
	Annotations map[string]any `json:"annotations,omitempty"`
}

// digestSet is a "sha256:..." digest in in-toto's form.
func digestSet(digest string) map[string]string {
	return map[string]string{"sha256": strings.TrimPrefix(digest, "sha256:")}
}

// NewStatement returns a statement about one artifact; predicate is its JSON text.
func NewStatement(name, digest, predicateType string, predicate []byte) Statement {
	return Statement{
		Type:          statementV1,
		Subject:       []Resource{{Name: name, Digest: digestSet(digest)}},
		PredicateType: predicateType,
		Predicate:     predicate,
	}
}

// Encode returns the statement as one line of JSON, without a line break; the same statement always
// gives the same bytes.
func (s Statement) Encode() ([]byte, error) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(s); err != nil {
		return nil, fmt.Errorf("encoding statement: %w", err)
	}

	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// parseStatement decodes an in-toto statement of either version.
func parseStatement(data []byte) (Statement, error) {
	if len(data) > maxStatement {
		return Statement{}, fmt.Errorf("statement is larger than %d bytes", maxStatement)
	}

	decoder := json.NewDecoder(bytes.NewReader(data))

	var s Statement
	if err := decoder.Decode(&s); err != nil {
		return Statement{}, fmt.Errorf("decoding statement: %w", err)
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Statement{}, errors.New("statement has more than one JSON value")
	}

	switch {
	case s.Type != statementV1 && s.Type != statementV01:
		return Statement{}, fmt.Errorf("%q is not an in-toto statement", s.Type)
	case s.PredicateType == "":
		return Statement{}, errors.New("statement has no predicate type")
	case len(s.Subject) == 0 || len(s.Subject) > maxSubjects:
		return Statement{}, fmt.Errorf("statement has %d subjects, not 1 to %d", len(s.Subject), maxSubjects)
	}

	return s, nil
}

// ParseStatements decodes a file with one statement a line.
func ParseStatements(data []byte) ([]Statement, error) {
	var all []Statement

	for line := range bytes.Lines(data) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}

		s, err := parseStatement(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(all)+1, err)
		}

		all = append(all, s)
	}

	return all, nil
}

// About reports whether the statement is about the artifact with this digest.
func (s Statement) About(digest v1.Hash) bool {
	return slices.ContainsFunc(s.Subject, func(r Resource) bool {
		return digest.Algorithm == "sha256" && r.Digest["sha256"] == digest.Hex
	})
}

// subjects lists the digests that the statement is about, for messages.
func (s Statement) subjects() string {
	digests := make([]string, 0, len(s.Subject))
	for _, r := range s.Subject {
		digests = append(digests, "sha256:"+r.Digest["sha256"])
	}

	return strings.Join(digests[:min(len(digests), 3)], ", ")
}
