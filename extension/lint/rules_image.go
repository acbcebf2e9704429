package lint

import (
	"fmt"
	"slices"
	"strings"
)

var imageRules = []Rule{
	{
		ID: "tar-damaged", Severity: Error, Refuses: []Step{StepTarball, StepExtract},
		Effect: "the imager stops with \"error reading tar header\" (all versions)",
	},
	{
		ID: "tar-compressed", Severity: Error, Refuses: []Step{StepTarball},
		Effect: "tarballPath takes a plain tar: the imager stops with \"invalid tar header\" (all versions)",
	},
	{
		ID: "tar-image-archive", Severity: Error, Refuses: []Step{StepTarball, StepLoad},
		Effect: "tarballPath takes a tar of manifest.yaml and rootfs, not an archive of an image: the imager stops with \"unexpected file\" (all versions)",
	},
	{
		ID: "oci-damaged", Severity: Error, Refuses: []Step{StepOCIPath, StepImageRef},
		Effect: "a blob is missing or is not what its digest says: registries refuse it, and ociPath may build with altered bytes (all versions)",
	},
	{
		ID: "oci-diff-id", Severity: Error,
		Effect: "the image configuration names another tar than the layer unpacks to: container runtimes refuse the image, the imager does not notice (all versions)",
	},
	{
		ID: "oci-layer-media-type", Severity: Warning,
		Effect: "the imager goes by the bytes, other tools go by the media type and fail to unpack the layer (all versions)",
	},
	{
		ID: "oci-no-image", Severity: Error, Refuses: []Step{StepOCIPath, StepImageRef},
		Effect: `the imager stops with "no OCI image found" (all versions)`,
		artifact: func(s *scope) {
			if c := s.contents; len(c.images) == 0 && (c.kind == KindLayout || c.kind == KindRegistry) {
				s.found("", "the index lists no image")
			}
		},
	},
	{
		ID: "oci-nested-index", Severity: Error, Refuses: []Step{StepOCIPath, StepImageRef},
		Effect: `only images listed directly in the index are looked at: the imager stops with "no OCI image found" or "no child with platform" when there is none (all versions)`,
		artifact: func(s *scope) {
			for _, digest := range s.contents.nestedIndexes {
				s.foundAs(s.unless(len(usableArchs(s.contents.images)) > 0), digest, "the index lists another index")
			}
		},
	},
	{
		ID: "oci-platform-missing", Severity: Error, Refuses: []Step{StepOCIPath},
		Effect: `an image without a platform in the index is passed over: the imager stops with "no OCI image found" when there is no other; from a registry it is taken for linux/amd64 (all versions)`,
		artifact: func(s *scope) {
			for _, i := range s.contents.images {
				if !i.nested && !i.hasPlatform {
					listed := slices.Contains(usableArchs(s.contents.images), i.configArch)
					s.foundAs(s.unless(listed), i.digest, "the index gives this image no platform")
				}
			}
		},
	},
	{
		ID: "oci-platform-other", Severity: Warning,
		Effect: "Talos runs on linux/amd64 and linux/arm64: nobody asks for an image of another platform (all versions)",
		artifact: func(s *scope) {
			for _, i := range s.contents.images {
				if i.hasPlatform && !i.usable() {
					s.found(i.digest, "the image is for %s/%s", i.os, i.arch)
				}
			}
		},
	},
	{
		ID: "oci-platform-differs", Severity: Error,
		Effect: "the index and the image's own configuration name different platforms: a node gets programs of another machine (all versions)",
		artifact: func(s *scope) {
			for _, i := range s.contents.images {
				if i.hasPlatform && (i.configArch != i.arch || i.configOS != i.os) {
					s.found(i.digest, "the index says %s/%s, the image says %q/%q", i.os, i.arch, i.configOS, i.configArch)
				}
			}
		},
	},
	{
		ID: "oci-platform-twice", Severity: Error,
		Effect: "of two images for one platform the imager silently takes the first (all versions)",
		artifact: func(s *scope) {
			seen := make(map[string]bool)

			for _, i := range s.contents.images {
				platform := i.os + "/" + i.arch
				if !i.hasPlatform || i.nested {
					continue
				}

				if seen[platform] {
					s.found(i.digest, "the index lists %s more than once", platform)
				}

				seen[platform] = true
			}
		},
	},
	{
		ID: "oci-layers", Severity: Warning,
		Effect: "the extractor emits the topmost layer first, so a directory of a lower layer comes too late for what lies in it (up to 1.13): use one layer",
		artifact: func(s *scope) {
			for _, i := range s.contents.images {
				if i.layers > 1 {
					s.found(i.digest, "the image has %d layers", i.layers)
				}
			}
		},
	},
	{
		ID: "oci-single-architecture", Severity: Note,
		Effect: `a build for the other architecture stops with "no OCI image found" (all versions)`,
		artifact: func(s *scope) {
			if archs := usableArchs(s.contents.images); len(archs) == 1 {
				s.found("", "there is an image for %s only", archs[0])
			}
		},
	},
	{
		ID: "oci-architectures-differ", Severity: Warning,
		Effect:   "nodes of one architecture get files that the others do not get (all versions)",
		artifact: checkSamePaths,
	},
}

// unless makes a warning of the rule's error when the artifact has something else that the imager takes.
func (s *scope) unless(other bool) Severity {
	if other {
		return Warning
	}

	return s.rule.Severity
}

func (i *image) usable() bool {
	return i.os == "linux" && (i.arch == "amd64" || i.arch == "arm64")
}

func usableArchs(images []*image) []string {
	var archs []string

	for _, i := range images {
		if i.hasPlatform && !i.nested && i.usable() {
			archs = append(archs, i.arch)
		}
	}

	slices.Sort(archs)

	return slices.Compact(archs)
}

// checkSamePaths compares the files of the first tree with those of every other. Names that hold the
// architecture, such as that of the loader, may differ, and so may modules and firmware.
func checkSamePaths(s *scope) {
	trees := s.contents.trees
	if len(trees) < 2 {
		return
	}

	for _, other := range trees[1:] {
		for _, pair := range [][2]*tree{{trees[0], other}, {other, trees[0]}} {
			if extra := filesOnlyIn(pair[0], pair[1]); len(extra) > 0 {
				s.found(extra[0], "%s: %s has, %s does not", countOf(len(extra), "file", "files"), pair[0].arch, pair[1].arch)
			}
		}
	}
}

func filesOnlyIn(a, b *tree) []string {
	var extra []string

	for name, e := range a.files {
		if node, ok := nodePath(name); ok && !e.isDir() && b.files[name] == nil && !machineDependent(node) {
			extra = append(extra, name)
		}
	}

	slices.Sort(extra)

	return extra
}

func machineDependent(node string) bool {
	for _, part := range []string{"x86", "amd64", "aarch64", "arm64", "/modules/", "/firmware/"} {
		if strings.Contains(node, part) {
			return true
		}
	}

	return false
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}

	return fmt.Sprintf("%d %s", n, many)
}
