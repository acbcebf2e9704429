package builder

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/rootfs"
	"github.com/cnibake/cnibake/profiles"
)

// setName is how SPDX and OCI metadata call a plugin set that is not a Talos extension.
const setName = "cni-plugins"

// Archive is the tarball rooted at / for nodes whose image is built with ordinary tools. It holds
// regular files only: an archive that has no directory entries cannot change the mode or owner of a
// directory on the host.
type Archive struct{}

var _ Format = Archive{}

// NeedsInstaller is true: the unit runs it.
func (Archive) NeedsInstaller() bool { return true }

// SBOMName is the plugin set's.
func (Archive) SBOMName(profiles.Profile) string { return setName }

// Write writes PROFILE-ARCH.tar, with .gz or .zst as the compression has it.
func (f Archive) Write(ctx context.Context, target *Target, out *Output) error {
	return eachArch(ctx, target.Architectures, func(ctx context.Context, arch string) error {
		payload, err := target.Payload(ctx, arch)
		if err != nil {
			return err
		}

		tree, err := payload.Tree(target.Profile, "", f.SBOMName(target.Profile))
		if err != nil {
			return err
		}

		if unit := target.Profile.Unit; unit != "" {
			if err := tree.Add(strings.TrimPrefix(unit, "/"), 0o644, rootfs.Bytes([]byte(systemdUnit(target.Profile)))); err != nil {
				return err
			}
		}

		layer, err := target.Layer(ctx, tree)
		if err != nil {
			return err
		}

		name := fmt.Sprintf("%s-%s.tar%s", target.Profile.Name, arch, extensionOf(target.Compression()))

		return out.File(ctx, Artifact{Name: name, Kind: KindArchive, Arch: arch}, func(w io.Writer) error {
			content, err := layer.Compressed()
			if err != nil {
				return err
			}
			defer content.Close()

			_, err = io.Copy(w, content)

			return err
		})
	})
}

func extensionOf(compression oci.Compression) string {
	return map[oci.Compression]string{oci.Gzip: ".gz", oci.Zstd: ".zst"}[compression]
}

// systemdUnit stages at boot. Source and destination are the same directory unless the node says
// otherwise in /etc/default/cni-plugins: then the unit verifies what the image carries; a node whose
// runtime looks elsewhere sets CNI_INSTALL_DEST.
func systemdUnit(profile profiles.Profile) string {
	return fmt.Sprintf(`[Unit]
Description=Stage the CNI plugins that this node image carries
Documentation=https://github.com/cnibake/cnibake
RequiresMountsFor=%[1]s
Before=containerd.service crio.service kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service

[Service]
Type=oneshot
RemainAfterExit=yes
# Where the record and backups for uninstall are kept.
StateDirectory=cni-plugins
Environment=CNI_INSTALL_SOURCE=%[1]s CNI_INSTALL_DEST=%[1]s
# CNI_INSTALL_DEST=DIRECTORY here stages into another directory.
EnvironmentFile=-/etc/default/cni-plugins
ExecStart=%[2]s install --strict

[Install]
WantedBy=multi-user.target
`, profile.PluginDir, profile.Installer)
}
