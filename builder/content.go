package builder

import (
	"context"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder/attest"
)

// ImageContent looks into an image for what its attestations are compared with.
func ImageContent(ctx context.Context, image v1.Image) (attest.Content, error) {
	contents, err := InspectImage(ctx, image)
	if err != nil {
		return attest.Content{}, err
	}

	return contents.attestable(), nil
}

// attestable is what can be compared with attestations. A missing plugin is not there, whatever the
// manifest says of it.
func (c Contents) attestable() attest.Content {
	content := attest.Content{Arch: c.Arch, Manifest: c.Manifest, Plugins: make(map[string]string), Programs: c.Programs, Fault: c.Odd}

	for _, plugin := range c.Plugins {
		if plugin.State != StateMissing {
			content.Plugins[plugin.Name] = plugin.Digest
		}

		if content.Fault != "" || plugin.State == StateListed || plugin.State == StateUnverified {
			continue
		}

		content.Fault = fmt.Sprintf("plugin %s (%s) is %s", plugin.Name, plugin.Digest, plugin.State)
		if plugin.State == StateWrongArch {
			content.Fault += fmt.Sprintf(": it is for %s, in an image for %s", plugin.Arch, c.Arch)
		}
	}

	return content
}

// FileContent looks into an archive of one plugin set for what its attestations are compared with.
func FileContent(ctx context.Context, file string) (attest.Content, error) {
	all, err := Inspect(ctx, file)
	if err != nil {
		return attest.Content{}, err
	}

	if len(all) != 1 {
		return attest.Content{}, fmt.Errorf("inspecting %s: it holds %d images, not one", file, len(all))
	}

	return all[0].attestable(), nil
}
