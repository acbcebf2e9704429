package main

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// The external VLAN: a trunk to the outside, tagged frames on it, and a guest in a pod that has a MAC
// of its own on the wire, as a virtual machine has.
const (
	vlanID      = 100
	nic         = "nic"
	tagged      = "nic.100"
	vlanBridge  = "br-vlan"
	outsideVLAN = "198.51.100.9"
	podVLAN     = "198.51.100.20"
	guestVLAN   = "198.51.100.30"
	guestMAC    = "02:00:00:00:00:30"
)

// checkExternalVLAN shows why a virtual machine on an external VLAN needs a bridge: over a bridge
// attachment the guest's own MAC passes, over macvlan only the pod's does.
func checkExternalVLAN(r *recorder, p plan.Plan) {
	attach := []struct {
		name, plugins string
		passes        bool
	}{
		{"bridge", `{"type": "bridge", "bridge": "` + vlanBridge + `", "ipam": {}}`, true},
		{"macvlan", `{"type": "macvlan", "master": "` + tagged + `", "mode": "bridge", "ipam": {}}`, false},
	}

	for _, c := range attach {
		err := func() error {
			outer, err := newNamespace("outside")
			if err != nil {
				return err
			}
			defer outer.close()
			defer removeLink(nic)
			defer removeLink(vlanBridge)

			if err := externalVLAN(outer, c.passes); err != nil {
				return err
			}

			a, err := newAttachment(p, "vm", c.plugins, nil)
			if err != nil {
				return err
			}
			defer a.close()

			ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
			defer cancel()

			if err := a.add(ctx); err != nil {
				return err
			}

			r.check("vlan", c.name+": the pod's own MAC passes", func() error { return podReaches(a, outer) })

			name, reaches := c.name+": the guest's own MAC passes", talkAsGuest
			if !c.passes {
				name, reaches = c.name+": the guest's own MAC does not pass", silentAsGuest
			}

			r.check("vlan", name, func() error { return withGuest(a, func(guest *namespace) error { return reaches(guest, outer) }) })

			return a.del(ctx)
		}()
		if err != nil {
			r.check("vlan", c.name, func() error { return err })
		}
	}
}

// externalVLAN connects the node's nic to the outside. With a bridge, the tagged sub-interface is its
// port; macvlan takes the sub-interface itself as its parent.
func externalVLAN(outer *namespace, bridged bool) error {
	if err := addPair(nic, "", outer, "switch", ""); err != nil {
		return err
	}

	if err := outer.do(func() error { return addTagged("switch", vlanID, outsideVLAN+"/24") }); err != nil {
		return err
	}

	if err := addTagged(nic, vlanID, ""); err != nil || !bridged {
		return err
	}

	if err := addLink(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: vlanBridge}}, ""); err != nil {
		return err
	}

	return enslave(tagged, vlanBridge)
}

func enslave(port, bridge string) error {
	link, err := netlink.LinkByName(port)
	if err != nil {
		return err
	}

	master, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}

	return netlink.LinkSetMaster(link, master)
}

// podReaches uses the attachment as an ordinary pod does and takes its address away again.
func podReaches(a *attachment, outer *namespace) error {
	if err := a.pod.do(func() error { return setUp(ifname, podVLAN+"/24") }); err != nil {
		return err
	}

	defer a.pod.do(func() error {
		link, err := netlink.LinkByName(ifname)
		if err != nil {
			return err
		}

		address, err := netlink.ParseAddr(podVLAN + "/24")
		if err != nil {
			return err
		}

		return netlink.AddrDel(link, address)
	})

	return talk(a.pod, "", outer, outsideVLAN+":7", outsideVLAN+":7", patience)
}

// withGuest connects a guest to the attachment the way KubeVirt does: a bridge in the pod joins them,
// and the guest's frames leave with the guest's MAC.
func withGuest(a *attachment, f func(guest *namespace) error) error {
	guest, err := newNamespace("guest")
	if err != nil {
		return err
	}
	defer guest.close()

	if err := a.pod.do(func() error {
		if err := addLink(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "k6t"}}, ""); err != nil {
			return err
		}

		if err := addPair("tap", "", guest, "eth0", ""); err != nil {
			return err
		}

		for _, port := range []string{ifname, "tap"} {
			if err := enslave(port, "k6t"); err != nil {
				return fmt.Errorf("putting %s into the pod's bridge: %w", port, err)
			}
		}

		return nil
	}); err != nil {
		return err
	}

	defer a.pod.do(func() error {
		removeLink("tap")
		removeLink("k6t")

		return nil
	})

	if err := guest.do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}

		mac, err := net.ParseMAC(guestMAC)
		if err != nil {
			return err
		}

		if err := netlink.LinkSetHardwareAddr(link, mac); err != nil {
			return err
		}

		return setUp("eth0", guestVLAN+"/24")
	}); err != nil {
		return err
	}

	return f(guest)
}

func talkAsGuest(guest, outer *namespace) error {
	return talk(guest, "", outer, outsideVLAN+":7", outsideVLAN+":7", patience)
}

func silentAsGuest(guest, outer *namespace) error {
	return silent(guest, "", outer, outsideVLAN+":7", outsideVLAN+":7")
}
