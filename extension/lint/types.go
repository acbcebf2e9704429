// Package lint judges Talos system extensions, ours or anyone's, by rules that say what would happen
// on a node. It sees archives entry by entry, as the Talos imager does, and trusts nothing in them.
package lint

import "slices"

// Severity of a finding.
type Severity string

// An error means that a Talos flow refuses the extension or that the node does not get what the
// archive holds; a warning that something is likely not meant; a note is worth knowing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Step is something that a Talos flow does with an extension and that can fail.
type Step string

// The steps that data/flows.yaml explains.
const (
	StepTarball       Step = "tarball"
	StepOCIPath       Step = "oci-path"
	StepImageRef      Step = "image-ref"
	StepExtract       Step = "extract"
	StepStrictParents Step = "strict-parents"
	StepNoSlash       Step = "no-slash"
	StepLoad          Step = "load"
	StepConstraints   Step = "constraints"
	StepContents      Step = "contents"
	StepSquash        Step = "squash"
	StepCatalogue     Step = "catalogue"
)

var steps = []Step{
	StepTarball, StepOCIPath, StepImageRef, StepExtract, StepStrictParents, StepNoSlash, StepLoad,
	StepConstraints, StepContents, StepSquash, StepCatalogue,
}

// Rule is one thing that can be wrong with an extension.
type Rule struct {
	// ID never changes once it is released.
	ID       string
	Severity Severity
	// Effect says in one line what happens on a node or in the imager, and in which Talos versions.
	Effect string
	// Refuses lists the steps that fail because of an error of the rule; empty when no flow notices.
	Refuses []Step
	// tarOnly is set when an image's extractor has left out the entry before anything could fail.
	tarOnly bool

	// One of the two looks at each file tree or once at the whole artifact.
	tree     func(*scope)
	artifact func(*scope)
}

// Family is a group of rules about the same thing.
type Family struct {
	Name  string
	Rules []Rule
}

// Families returns all rules.
func Families() []Family {
	return []Family{
		{"Tree", treeRules},
		{"Entries", entryRules},
		{"Archives and images", imageRules},
		{"Programs", elfRules},
		{"Manifest", manifestRules},
		{"SELinux", selinuxRules},
		{"SBOM", sbomRules},
		{"containerd", containerdRules},
		{"Services", serviceRules},
		{"Kernel modules and firmware", kernelRules},
		{"Paths", pathRules},
	}
}

// Kind is how an artifact is stored.
type Kind string

// The kinds Lint recognises, by content.
const (
	KindTar       Kind = "tar"
	KindLayout    Kind = "oci-layout"
	KindArchive   Kind = "image-archive"
	KindDirectory Kind = "directory"
	KindRegistry  Kind = "registry"
)

// Report is what Lint found. Its JSON form is stable: fields are only added.
type Report struct {
	SchemaVersion int    `json:"schemaVersion"`
	Artifact      string `json:"artifact"`
	Kind          Kind   `json:"kind"`
	// Talos is the release the artifact was judged for; empty means every release it admits.
	Talos      string      `json:"talos"`
	Extensions []Extension `json:"extensions"`
	Findings   []Finding   `json:"findings"`
	Flows      []Verdict   `json:"flows"`
}

// Extension is one extension of the artifact, as its manifest describes it.
type Extension struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Arch is the architecture of the image; empty where the artifact does not say.
	Arch string `json:"arch,omitempty"`
	// Compatibility is the range of Talos versions.
	Compatibility string `json:"compatibility"`
}

// Finding is one place where a rule is broken.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	// Path inside the artifact; empty when the whole artifact is meant.
	Path string `json:"path,omitempty"`
	// Arch tells the images of a multi-architecture artifact apart.
	Arch    string `json:"arch,omitempty"`
	Message string `json:"message"`
	// Effect is the rule's.
	Effect string `json:"effect"`
}

// Verdict says whether a Talos flow takes the artifact.
type Verdict struct {
	Flow string `json:"flow"`
	// Talos is a release line, for example 1.13, a range of lines, or the release asked for.
	Talos    string   `json:"talos"`
	Accepted bool     `json:"accepted"`
	Reasons  []Reason `json:"reasons,omitempty"`
}

// Reason is why a flow refuses an artifact.
type Reason struct {
	Rule    string `json:"rule"`
	Path    string `json:"path,omitempty"`
	Arch    string `json:"arch,omitempty"`
	Message string `json:"message"`
}

// Count returns how many findings have the severity.
func (r *Report) Count(severity Severity) int {
	n := 0

	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}

	return n
}

// Good reports whether nothing is wrong: there may be warnings and notes.
func (r *Report) Good() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Error })
}
