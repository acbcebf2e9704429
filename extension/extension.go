// Package extension makes Talos system extensions: the manifest, the tree below rootfs/, SELinux
// labels, and the two shapes in which the Talos imager takes them.
package extension

import (
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/extensions"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/builder/rootfs"
	"github.com/cnibake/cnibake/profiles"
)

const (
	manifestName    = "manifest.yaml"
	manifestVersion = "v1alpha1"
	rootfsDir       = "rootfs"
	selinux         = "security.selinux"
)

// Format writes a profile as a Talos system extension.
type Format struct{}

var _ builder.Format = Format{}

// NeedsInstaller is false: nothing has to be staged where the image carries the plugins.
func (Format) NeedsInstaller() bool { return false }

// SBOMName is the extension's name. On the node it is a resource ID beside Talos's own SBOMs.
func (Format) SBOMName(profile profiles.Profile) string { return profile.Extension.Name }

// Write writes the layout PROFILE/ for the imager's ociPath and imageRef and, for each architecture,
// the plain tar PROFILE-ARCH.tar for its tarballPath.
func (f Format) Write(ctx context.Context, target *builder.Target, out *builder.Output) error {
	annotations := target.Annotations(target.Profile.Extension.Name)

	variants, err := builder.Variants(ctx, target, func(ctx context.Context, arch string) (*oci.Layer, oci.ImageConfig, error) {
		config := oci.ImageConfig{Arch: arch, Created: target.Created, Annotations: annotations}

		content, err := target.Payload(ctx, arch)
		if err != nil {
			return nil, config, err
		}

		tree, err := Tree(target.Profile, target.Pin, content)
		if err != nil {
			return nil, config, err
		}

		plain := builder.Artifact{Name: fmt.Sprintf("%s-%s.tar", target.Profile.Name, arch), Kind: builder.KindExtensionTar, Arch: arch}
		if err := out.File(ctx, plain, func(w io.Writer) error { return tree.WriteTar(ctx, w, target.Created) }); err != nil {
			return nil, config, err
		}

		layer, err := target.Layer(ctx, tree)

		return layer, config, err
	})
	if err != nil {
		return err
	}

	return out.Layout(ctx, target.Profile.Name, target.Pin.PackagedVersion(), annotations, variants)
}

// Tree returns the extension's file tree: manifest.yaml and rootfs/ with everything below it, every
// directory with an entry of its own before what it holds. Talos makes the modes of these directories
// the node's.
func Tree(profile profiles.Profile, pin profiles.Pin, content *builder.Payload) (*rootfs.Tree, error) {
	tree, err := content.Tree(profile, rootfsDir, profile.Extension.Name)
	if err != nil {
		return nil, err
	}

	manifest, err := encodeManifest(profile, pin, content.Manifest)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", manifestName, err)
	}

	if err := tree.Add(manifestName, 0o644, rootfs.Bytes(manifest)); err != nil {
		return nil, err
	}

	if c := profile.Containerd; c != nil {
		if err := tree.Add(path.Join(rootfsDir, c.Part), 0o644, rootfs.Bytes(containerdPart(c))); err != nil {
			return nil, err
		}
	}

	if err := tree.AddParents(); err != nil {
		return nil, err
	}

	tree.Label(selinux, func(name string) string {
		below, ok := strings.CutPrefix(name, rootfsDir)
		if !ok || below != "" && below[0] != '/' {
			return ""
		}

		return label(profile.SELinux, path.Clean("/"+below))
	})

	return tree, nil
}

// label returns the label of the longest path that is name or holds it.
func label(labels map[string]string, name string) string {
	for {
		if l, ok := labels[name]; ok {
			return l
		}

		if name == "/" {
			return ""
		}

		name = path.Dir(name)
	}
}

func encodeManifest(profile profiles.Profile, pin profiles.Pin, content payload.Manifest) ([]byte, error) {
	return encodeYAML(extensions.Manifest{
		Version: manifestVersion,
		Metadata: extensions.Metadata{
			Name:    profile.Extension.Name,
			Version: pin.PackagedVersion(),
			Author:  profile.Extension.Author,
			Description: fmt.Sprintf("CNI reference plugins %s in %s: %s", pin.Version, profile.PluginDir,
				strings.Join(content.Names(), ", ")),
			Compatibility: extensions.Compatibility{Talos: extensions.Constraint{Version: profile.Extension.Talos}},
		},
	})
}

// containerdPart is the drop-in for containerd 2.1 and later that makes it search several plugin
// directories. It sets this one key and leaves the rest to Talos.
func containerdPart(c *profiles.Containerd) []byte {
	quoted := make([]string, len(c.BinDirs))
	for i, dir := range c.BinDirs {
		quoted[i] = strconv.Quote(dir)
	}

	return []byte(fmt.Sprintf(`# The plugins of this extension lie in %s, which no writer of /opt/cni/bin can hide.
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = [%s]
`, c.BinDirs[0], strings.Join(quoted, ", ")))
}
