package kubernetes

import (
	"fmt"
	"slices"
	"strings"
)

// primaryDir is where the primary CNI writes its configuration, so that Multus is the only writer of the
// runtime's directory. Multus's own manifest mounts it at the same path.
const primaryDir = "/etc/cni/multus/net.d"

// primary is a CNI that gives pods their first network.
type primary struct {
	name string
	// file is the configuration that it writes.
	file string
	// steps say how it is made to write into DIR instead of the runtime's directory.
	steps string
}

// The primary CNIs that are known, sorted. Read in 2026-11, and not tried here:
//   - calico: projectcalico/calico, manifests/calico.yaml; tigera/operator 3262
//   - cilium: docs.cilium.io, Helm reference
//   - flannel: flannel-io/flannel, Documentation/kube-flannel.yml; docs.k3s.io, basic network options
var primaries = []primary{
	{"calico", "10-calico.conflist", `Installed from calico.yaml (the operator has no field for it): the volume cni-net-dir of DaemonSet calico-node, and CNI_NET_DIR of its container install-cni, which goes into the configuration as the kubeconfig's directory:
  kubectl -n kube-system patch daemonset calico-node -p '{"spec":{"template":{"spec":{
    "volumes":[{"name":"cni-net-dir","hostPath":{"path":"DIR"}}],
    "initContainers":[{"name":"install-cni","env":[{"name":"CNI_NET_DIR","value":"DIR"}]}]}}}}'`},
	{"cilium", "05-cilium.conflist", `Values of its chart:
  cni:
    confPath: DIR
    exclusive: false   # true renames other configurations to *.cilium_bak`},
	{"flannel", "10-flannel.conflist", `The volume cni of its DaemonSet:
  kubectl -n kube-flannel patch daemonset kube-flannel-ds -p '{"spec":{"template":{"spec":{
    "volumes":[{"name":"cni","hostPath":{"path":"DIR"}}]}}}}'
The flannel inside k3s cannot be told: there, leave --primary out, or run k3s with --flannel-backend=none and flannel as pods.`},
}

// Primaries returns the names of the primary CNIs that are known, sorted.
func Primaries() []string {
	var names []string
	for _, p := range primaries {
		names = append(names, p.name)
	}

	return names
}

func lookupPrimary(name string) (primary, error) {
	i := slices.IndexFunc(primaries, func(p primary) bool { return p.name == name })
	if i < 0 {
		return primary{}, fmt.Errorf("unknown primary CNI %q: known are %s", name, strings.Join(Primaries(), ", "))
	}

	return primaries[i], nil
}

// help says how the change is brought to a running cluster. confDir is the runtime's directory.
func (p primary) help(confDir string) string {
	return fmt.Sprintf(`Multus as the only writer of %[1]s: while it restarts, the directory is empty and new pods wait, instead of starting without their attachments.
First make %[2]s write to %[3]s:
%[4]s
Then node by node, with this patch applied under updateStrategy OnDelete:
 1. kubectl cordon NODE, and see that %[3]s/%[5]s is there
 2. remove %[1]s/%[5]s from the node
 3. delete the node's pod of kube-multus-ds, wait until the new one is ready and %[1]s/00-multus.conf is there
 4. kubectl uncordon NODE`,
		confDir, p.name, primaryDir, strings.ReplaceAll(p.steps, "DIR", primaryDir), p.file)
}
