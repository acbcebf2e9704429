package kubernetes

import "fmt"

func (o DaemonSetOptions) header() string {
	if o.Uninstall {
		return fmt.Sprintf("Takes back the CNI plugins that were staged into %s, node by node. Apply it in the place of the DaemonSet that staged them, wait for the rollout, delete it. Written by cnibake manifest daemonset --uninstall.", o.Distro.BinDir)
	}

	text := fmt.Sprintf("Puts the CNI plugins of an image into %s of every node and keeps them there. Written by cnibake manifest daemonset for the distribution %s.", o.Distro.BinDir, o.Distro.Name)

	if o.Distro.Note != "" {
		text += fmt.Sprintf("\nAbout %s: %s.", o.Distro.Name, o.Distro.Note)
	}

	return text
}

// comments say why the fields that one does not meet every day are there.
func (o DaemonSetOptions) comments() []comment {
	const (
		pod   = "spec/template/spec"
		watch = pod + "/containers/watch"
	)

	first := comment{pod + "/initContainers", "Its failures are in its termination message (kubectl describe pod), and it exits 0 all the same, since a pod that cannot start mends nothing."}
	keep := comment{pod + "/containers", "Restores plugins that go missing, reports altered ones, answers the probes and serves /metrics."}

	if o.Uninstall {
		first.text = "Fails where something has to stay, and says what and why in its termination message (kubectl describe pod)."
		keep.text = "Watches nothing, and keeps the pod running so that the rollout goes on."
	}

	comments := []comment{
		first,
		keep,
		{"spec/updateStrategy", "One node at a time; the next one waits until this one has been staged and is watched."},
		{pod + "/volumes", "All of the node that the containers see."},
		{pod + "/dnsPolicy", "Nothing is looked up, and the cluster's DNS may not be reachable yet."},
		{pod + "/hostNetwork", "On a node that lacks its plugins no pod with a network of its own can start."},
		{pod + "/automountServiceAccountToken", "The containers do not talk to the API server."},
		{pod + "/tolerations", "Every taint: a node is tainted not-ready until its network works."},
		{pod + "/priorityClassName", "Not to be evicted or preempted for workloads. Where an admission rule wants a quota for this class, see docs/kubernetes.md."},
		{pod + "/enableServiceLinks", "Keeps variables that services of the namespace would add out of the installer's environment."},
		{watch + "/env", "The installer's flags: also for kubectl exec with verify, doctor or uninstall."},
		{watch + "/readinessProbe", "Not /readyz, which also says whether every plugin is there: one node that cannot be written to would hold up all others."},
		{watch + "/ports", "A port of the node, since the pod has the node's network."},
	}

	comments = append(comments, o.securityComments(pod+"/initContainers/"+o.verb())...)

	if o.Distro.KubeletInContainer {
		comments = append(comments, comment{pod + "/volumes/bin/hostPath", fmt.Sprintf("Without a type: the kubelet of %s runs in a container and cannot check for what it does not see.", o.Distro.Name)})
	}

	if o.Distro.LinkDir != "" {
		comments = append(comments, comment{pod + "/volumes/links/hostPath", fmt.Sprintf("Links in %s lead into it; read-only, for install-cni-plugins doctor in this pod.", o.Distro.BinDir)})
	}

	if o.Distro.OverlayUpper != "" {
		comments = append(comments, comment{pod + "/volumes/upper/hostPath", "What lies here hides plugins of the node image; read-only, for install-cni-plugins verify --upper and doctor in this pod."})
	}

	return comments
}
