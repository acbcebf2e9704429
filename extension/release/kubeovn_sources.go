package release

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// kubeOVNValues reads global.images.kubeovn.tag of the Helm chart's values, also where the chart is a
// dependency of another one and its values stand one level deeper.
func kubeOVNValues(root *yaml.Node) ([]Shipped, error) {
	if root == nil || root.Kind != yaml.MappingNode {
		return nil, nil
	}

	candidates := []*yaml.Node{root}
	for i := 1; i < len(root.Content); i += 2 {
		candidates = append(candidates, root.Content[i])
	}

	for _, candidate := range candidates {
		tag, line := text(candidate, "global", "images", "kubeovn", "tag")
		if tag == "" {
			continue
		}

		const from = "global.images.kubeovn.tag"

		release, digest, hasDigest := strings.Cut(tag, "@")
		if hasDigest && !digestPattern.MatchString(digest) {
			return nil, fmt.Errorf("%s: the digest is not sha256 and 64 hexadecimal digits", at(line, from))
		}

		shipped := Shipped{Kind: "kube-ovn values", Writer: KubeOVN}

		if !IsVersion(release) {
			shipped.Why = fmt.Sprintf("the tag %q in line %d is not a release", shorten(release), line)

			return []Shipped{shipped}, nil
		}

		if err := shipped.releaseOf(release, at(line, from)); err != nil {
			return nil, err
		}

		return []Shipped{shipped}, nil
	}

	return nil, nil
}

// dockerfile reads CNI_PLUGINS_VERSION of a Dockerfile or a similar file, such as kube-ovn's
// dist/images/Dockerfile.base. It does not tell whose it is.
func dockerfile(content string) (Shipped, bool, error) {
	if !strings.Contains(content, "CNI_PLUGINS_VERSION") {
		return Shipped{}, false, nil
	}

	var p Pinned

	for i, line := range strings.Split(content, "\n") {
		// A marker would make this file our side, not theirs.
		line = strings.TrimSuffix(line, "\r")
		if markerLine.MatchString(line) {
			return Shipped{}, false, fmt.Errorf("line %d is a marker, so this file is our side: pass it with --marker", i+1)
		}

		if err := p.readLine(line, i+1, 0); err != nil {
			return Shipped{}, false, fmt.Errorf("line %d: %w", i+1, err)
		}
	}

	if p.Version == "" {
		return Shipped{}, false, nil
	}

	return Shipped{
		Kind: "CNI_PLUGINS_VERSION", Plugins: p.Version,
		Why:      "the file does not name a release",
		Evidence: []Evidence{{"plugins " + p.Version, at(p.Line, "CNI_PLUGINS_VERSION")}},
	}, true, nil
}
