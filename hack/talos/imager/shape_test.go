package imager_test

import "github.com/cnibake/cnibake/hack/talos/artifact"

// shape is what an extension must look like, written down here a second time and not read from the
// profile that makes it.
type shape struct {
	profile   string
	name      string
	pluginDir string
	// supported are the ends of the constraint's range, and unsupported the nearest release below it.
	supported   []string
	unsupported string
	// catalogue is whether the path check of the catalogue's validator lets it pass.
	catalogue bool
	// extra are the files beside plugins, manifests, licence and SBOM.
	extra []string
	// labels by path below rootfs; a path that is not here has the label of the nearest one above it.
	labels map[string]string
}

const (
	rootLabel   = "system_u:object_r:rootfs_t:s0"
	optLabel    = "system_u:object_r:opt_t:s0"
	etcLabel    = "system_u:object_r:etc_t:s0"
	usrLabel    = "system_u:object_r:usr_t:s0"
	pluginLabel = "system_u:object_r:cni_plugin_t:s0"
)

var shapes = []shape{
	{
		profile:     artifact.Talos,
		name:        "cni-plugins",
		pluginDir:   "opt/cni/bin",
		supported:   []string{"v1.13.0", "v1.13.6", "v1.14.1", "v1.13.0-alpha.1", "v2.0.0"},
		unsupported: "v1.12.11",
		labels:      map[string]string{"/": rootLabel, "/opt": optLabel, "/opt/cni": pluginLabel, "/usr": usrLabel},
	},
	{
		profile:     artifact.TalosReadonly,
		name:        "cni-plugins-readonly",
		pluginDir:   "usr/local/lib/cni",
		supported:   []string{"v1.11.0", "v1.13.6", "v1.14.1", "v1.11.0-alpha.0", "v2.0.0"},
		unsupported: "v1.10.9",
		catalogue:   true,
		extra:       []string{"rootfs/etc/cri/conf.d/20-cni-plugins.part"},
		labels:      map[string]string{"/": rootLabel, "/etc": etcLabel, "/usr": usrLabel, "/usr/local/lib/cni": pluginLabel},
	},
}
