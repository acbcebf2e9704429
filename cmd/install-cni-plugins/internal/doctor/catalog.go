package doctor

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/builder/payload"
)

// carried is our plugin set; what a payload at hand says counts more.
const carried = " bandwidth bridge firewall host-device host-local ipvlan macvlan portmap ptp sbr static tuning vlan vrf "

// leftOut are upstream's plugins that our set leaves out, why, and what to do.
var leftOut = map[string]struct{ why, instead string }{
	"dhcp":     {"needs a long-running daemon on the host, which an image layer cannot start", "use ipam static or host-local, or none and let the guest ask a DHCP server; or build a payload with it (cnibake build --with dhcp --packaging separate) and run \"dhcp daemon\" on every node"},
	"dummy":    {"no known consumer among Multus attachments", "build a payload with it: cnibake build --with dummy"},
	"loopback": {"the runtime calls it for every sandbox, so the node's platform or CNI brings its own", "install the node's CNI anew; or build a payload with it: cnibake build --with loopback"},
	"tap":      {"no known consumer among Multus attachments", "build a payload with it: cnibake build --with tap"},
}

// owners says whose plugins are no reference plugins: "project: names".
var owners = []string{
	"Antrea: antrea", "AWS VPC CNI: aws-cni egress-cni", "Azure CNI: azure-vnet azure-vnet-ipam", "bond-cni: bond",
	"Calico: calico calico-ipam", "Cilium: cilium-cni", "Cluster Network Addons Operator: cnv-bridge cnv-tuning ovs-cni-marker",
	"flannel: flannel", "ib-sriov-cni: ib-sriov", "Istio: istio-cni", "kube-ovn: kube-ovn", "KubeVirt: kubevirt-passt-binding",
	"Linkerd: linkerd-cni", "Multus: multus multus-shim passthru", "OVN-Kubernetes: ovn-k8s-cni-overlay", "ovs-cni: ovs",
	"rdma-cni: rdma", "Spiderpool: spiderpool coordinator ifacer", "sriov-cni: sriov", "Weave Net: weave-net weave-ipam",
	"whereabouts: whereabouts",
}

// ownerOf says to which project a plugin belongs; empty where nobody knows.
func ownerOf(name string) string {
	for _, line := range owners {
		owner, names, _ := strings.Cut(line, ": ")
		if slices.Contains(strings.Fields(names), name) {
			return owner
		}
	}

	return ""
}

// brings reports whether our plugin set has a plugin.
func (d *doctor) brings(name string) bool {
	if _, ok := d.payload.Lookup(name); ok || len(d.payload.Plugins) > 0 {
		return ok
	}

	return strings.Contains(carried, " "+name+" ")
}

// readPayload finds out which plugins are at hand for staging.
func (d *doctor) readPayload() {
	for _, name := range []string{
		filepath.Join(d.Source, payload.ManifestName),
		filepath.Join(filepath.Dir(filepath.Clean(d.Source)), "manifest.json"),
	} {
		if m, err := payload.ReadManifest(name); err == nil {
			d.payload = m

			return
		}
	}
}
