package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MultusVersion is the release of multus-cni that the patch is for.
const MultusVersion = "v4.2.2"

// The names in the manifest of its thick plugin, deployments/multus-daemonset-thick.yml.
const (
	multusNamespace = systemNamespace
	multusDaemonSet = "kube-multus-ds"
	multusContainer = "kube-multus"
	multusConfigMap = "multus-daemon-config"
	multusConfigKey = "daemon-config.json"
	multusManifest  = "multus-daemonset-thick.yml"

	multusBinVolume     = "cnibin"
	multusConfVolume    = "cni"
	multusKubeletVolume = "host-var-lib-kubelet"
	multusNetNSVolume   = "host-run-netns"
)

// What the manifest has without a patch.
const (
	multusBinDir     = "/opt/cni/bin"
	multusConfDir    = "/etc/cni/net.d"
	multusKubeletDir = "/var/lib/kubelet"
	multusNetNSDir   = "/run/netns"
)

// ReadOnlyDir is where the Talos extension talos-readonly has the plugins.
const ReadOnlyDir = "/usr/local/lib/cni"

// MultusOptions say what is changed in Multus's DaemonSet.
type MultusOptions struct {
	// Staging adds an init container that stages the plugins, unless its image is empty.
	Staging
	// ReadOnlyDir lets Multus find plugins in ReadOnlyDir first.
	ReadOnlyDir bool
	// Primary is one of Primaries, to make Multus the only writer of the runtime's configuration
	// directory; empty leaves that as it is.
	Primary string
}

// MultusPatch returns strategic-merge patches for the manifest of Multus's thick plugin.
func MultusPatch(o MultusOptions) (*Manifest, error) {
	if err := o.check(); err != nil {
		return nil, err
	}

	if o.Image != "" {
		if _, err := CheckImage(o.Image, o.Preloaded); err != nil {
			return nil, err
		}
	}

	var help string

	if o.Primary != "" {
		p, err := lookupPrimary(o.Primary)
		if err != nil {
			return nil, err
		}

		help = p.help(o.Distro.ConfDir)
	}

	m := &Manifest{
		base: multusManifest,
		baseHelp: "Put Multus's own manifest here, from a checkout or with curl -LO " +
			"https://raw.githubusercontent.com/k8snetworkplumbingwg/multus-cni/" + MultusVersion + "/deployments/" + multusManifest,
	}

	daemonSet := o.patch()
	comments := o.patchComments()

	if config := o.config(); config != nil {
		d, sum, err := config.document(o)
		if err != nil {
			return nil, err
		}

		m.documents = append(m.documents, d)
		// The daemon reads its configuration once: other content has to be another pod.
		daemonSet.Spec.Template.Annotations = map[string]string{configAnnotation: sum}
		comments = append(comments, comment{"spec/template/metadata/annotations", "The daemon reads its configuration when it starts: a change of it has to replace the pods."})
	}

	spec := daemonSet.Spec.Template.Spec
	if len(m.documents) == 0 && len(spec.InitContainers)+len(spec.Volumes) == 0 {
		return nil, fmt.Errorf("nothing of Multus's manifest has to change for %s: give an image to stage from", o.Distro.Name)
	}

	m.documents = append(m.documents, document{
		file: "multus-daemonset.yaml", object: daemonSet, header: o.patchHeader(help), comments: comments,
	})

	return m, nil
}

// patch returns what is to be merged into the DaemonSet.
func (o MultusOptions) patch() *appsv1.DaemonSet {
	d := o.Distro
	spec := corev1.PodSpec{}
	daemon := corev1.Container{Name: multusContainer}

	// Directories of the distribution's own.
	for _, v := range []struct{ name, dir, upstream string }{
		{multusBinVolume, d.BinDir, multusBinDir},
		{multusConfVolume, d.ConfDir, multusConfDir},
		{multusKubeletVolume, d.KubeletDir, multusKubeletDir},
		{multusNetNSVolume, d.NetNSDir, multusNetNSDir},
	} {
		if v.dir != v.upstream {
			spec.Volumes = append(spec.Volumes, corev1.Volume{Name: v.name, VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: v.dir},
			}})
		}
	}

	// The daemon looks for a plugin in its own container and executes the same path on the node.
	switch {
	case d.LinkDir != "":
		spec.Volumes = append(spec.Volumes, hostPath(d, "cni-plugins-links", d.LinkDir, corev1.HostPathDirectory))
		daemon.VolumeMounts = append(daemon.VolumeMounts, corev1.VolumeMount{Name: "cni-plugins-links", MountPath: d.LinkDir, ReadOnly: true})
	case d.BinDir != multusBinDir:
		daemon.VolumeMounts = append(daemon.VolumeMounts, corev1.VolumeMount{Name: multusBinVolume, MountPath: d.BinDir})
	}

	if o.ReadOnlyDir {
		spec.Volumes = append(spec.Volumes, hostPath(d, "cni-plugins-readonly", ReadOnlyDir, corev1.HostPathDirectory))
		daemon.VolumeMounts = append(daemon.VolumeMounts, corev1.VolumeMount{Name: "cni-plugins-readonly", MountPath: ReadOnlyDir, ReadOnly: true})
		daemon.Env = append(daemon.Env, corev1.EnvVar{Name: "CNI_PATH", Value: d.BinDir})
	}

	if len(daemon.VolumeMounts) > 0 {
		spec.Containers = append(spec.Containers, daemon)
	}

	if o.Image != "" {
		spec.Volumes = append(spec.Volumes, hostPath(d, "cni-plugins-state", stateDir, corev1.HostPathDirectoryOrCreate))
		spec.InitContainers = append(spec.InitContainers,
			o.installer("install-cni-plugins", "install", multusBinVolume, inHost(multusBinDir), "cni-plugins-state"))
	}

	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: multusDaemonSet, Namespace: multusNamespace},
		Spec:       appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}},
	}
}

// configAnnotation makes the pods follow the daemon's configuration.
const configAnnotation = "cnibake/daemon-config"

// daemonConfig is the configuration of Multus's daemon: what its manifest has, and what is changed.
type daemonConfig struct {
	ChrootDir           string `json:"chrootDir"`
	CNIVersion          string `json:"cniVersion"`
	LogLevel            string `json:"logLevel"`
	LogToStderr         bool   `json:"logToStderr"`
	CNIConfigDir        string `json:"cniConfigDir"`
	MultusAutoconfigDir string `json:"multusAutoconfigDir"`
	MultusConfigFile    string `json:"multusConfigFile"`
	SocketDir           string `json:"socketDir"`
	BinDir              string `json:"binDir,omitempty"`
}

// config returns the daemon's configuration, or nil where the manifest's own is right.
func (o MultusOptions) config() *daemonConfig {
	const confMount = "/host/etc/cni/net.d" // in the container, whatever the node calls it

	c := daemonConfig{
		ChrootDir: "/hostroot", CNIVersion: "0.3.1", LogLevel: "verbose", LogToStderr: true,
		CNIConfigDir: confMount, MultusAutoconfigDir: confMount, MultusConfigFile: "auto", SocketDir: "/host/run/multus/",
	}
	upstream := c

	switch {
	case o.ReadOnlyDir:
		c.BinDir = ReadOnlyDir
	case o.Distro.BinDir != multusBinDir:
		c.BinDir = o.Distro.BinDir
	}

	if o.Primary != "" {
		c.MultusAutoconfigDir = primaryDir
	}

	if c == upstream {
		return nil
	}

	return &c
}

// document returns the configuration as a ConfigMap, and a sum of it.
func (c *daemonConfig) document(o MultusOptions) (document, string, error) {
	data, err := json.MarshalIndent(c, "", "    ")
	if err != nil {
		return document{}, "", err
	}

	sum := sha256.Sum256(data)

	text := "The daemon's configuration, as in Multus's manifest but for"
	if c.BinDir != "" {
		text += " binDir, the directory that is the same path in the container and on the node"
	}

	if o.Primary != "" {
		if c.BinDir != "" {
			text += ", and"
		}

		text += fmt.Sprintf(" multusAutoconfigDir, where %s writes its configuration", o.Primary)
	}

	return document{
		file: "multus-config.yaml",
		object: &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: multusConfigMap, Namespace: multusNamespace},
			Data:       map[string]string{multusConfigKey: string(data) + "\n"},
		},
		header: text + ".",
	}, hex.EncodeToString(sum[:8]), nil
}
