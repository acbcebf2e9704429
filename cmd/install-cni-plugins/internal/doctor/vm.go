package doctor

import (
	"cmp"
	"encoding/json"
	"strings"
)

// vmOf returns the virtual machine that uses an attachment, as far as is known.
func (d *doctor) vmOf(attachment string) string {
	_, name, _ := strings.Cut(attachment, "/")

	for _, vm := range d.VMs {
		if vm == All || vm == attachment || vm == name {
			return "a virtual machine"
		}
	}

	return d.objects.vms[attachment]
}

// vmLosses says why a type cannot carry a virtual machine's frames.
var vmLosses = map[string]string{
	"macvlan": "it hands frames to the child that has their MAC address, and the guest's own is none of them",
	"ipvlan":  "all its children share the parent's MAC address, and frames to the guest's own are dropped",
}

// examineVM finds types that cannot carry a virtual machine's frames.
func (d *doctor) examineVM(out *Attachment, n *network, vm string) {
	for _, p := range n.plugins {
		if vmLosses[p.Type] == "" {
			continue
		}

		conf, _ := json.Marshal(map[string]string{"cniVersion": "0.3.1", "name": cmp.Or(n.name, "vlan"), "type": "bridge", "bridge": "br0"})

		s := todo("Make a Linux bridge on the node with the VLAN's interface as its port (docs/vm-vlan.md), and make this, with the bridge's name, the configuration of %s:", out.Name)
		s.Do += "\n" + string(conf)

		d.report(&out.Findings, VMNeedsBridge, s, "%s is attached by %s: %s", vm, p.Type, vmLosses[p.Type])
	}
}
