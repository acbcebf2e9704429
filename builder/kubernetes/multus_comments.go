package kubernetes

import "fmt"

func (o MultusOptions) patchHeader(help string) string {
	text := fmt.Sprintf("Patch for DaemonSet %s of multus-cni %s on nodes of the distribution %s. Written by cnibake manifest multus.", multusDaemonSet, MultusVersion, o.Distro.Name)

	if o.Image != "" && o.Distro.Note != "" {
		text += fmt.Sprintf("\nAbout %s: %s.", o.Distro.Name, o.Distro.Note)
	}

	if help != "" {
		text += "\n\n" + help
	}

	return text
}

func (o MultusOptions) patchComments() []comment {
	const (
		pod    = "spec/template/spec"
		daemon = pod + "/containers/" + multusContainer
	)

	var comments []comment

	d := o.Distro

	for _, v := range []struct{ name, dir, upstream, text string }{
		{multusBinVolume, d.BinDir, multusBinDir, "Where the runtime of %s looks for plugins."},
		{multusConfVolume, d.ConfDir, multusConfDir, "Where the runtime of %s looks for its network."},
		{multusKubeletVolume, d.KubeletDir, multusKubeletDir, "The kubelet's directory of %s."},
		{multusNetNSVolume, d.NetNSDir, multusNetNSDir, "On %s the pods' network namespaces are found here; without this no new pod starts."},
	} {
		if v.dir != v.upstream {
			comments = append(comments, comment{pod + "/volumes/" + v.name + "/hostPath", fmt.Sprintf(v.text, d.Name)})
		}
	}

	if d.LinkDir != "" || d.BinDir != multusBinDir || o.ReadOnlyDir {
		comments = append(comments, comment{daemon + "/volumeMounts", "At the node's paths: the daemon looks for a plugin here and executes the same path on the node."})
	}

	if o.ReadOnlyDir {
		comments = append(comments, comment{daemon + "/env", "Searched after binDir, for what is not among the plugins there."})
	}

	if o.Image != "" {
		install := pod + "/initContainers/install-cni-plugins"
		comments = append(comments,
			comment{pod + "/initContainers", "Stages the plugins. Its failures are in its termination message, and it exits 0 all the same: Multus has to start."},
			comment{install + "/resources", "Without a limit here the pod would change its rank when memory runs out."})
		comments = append(comments, o.securityComments(install)...)
	}

	return comments
}
