package main

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// leases is where host-local keeps its leases.
const leases = "/run/leases"

func scenarios() []scenario {
	return append(append(mainScenarios(), ipamScenarios()...), metaScenarios()...)
}

// pool is the IPAM part of a configuration: an address of 10.77.0.0/24 that is not the gateway's.
const pool = `"ipam": {"type": "host-local", "dataDir": "` + leases + `", "ranges": [[{"subnet": "10.77.0.0/24", "rangeStart": "10.77.0.20", "gateway": "10.77.0.1"}]], "routes": [{"dst": "0.0.0.0/0"}]}`

// Addresses outside the pod in the same network.
const (
	gateway     = "10.77.0.1"
	neighbour   = "10.77.0.9"
	neighbourIn = neighbour + "/24"
)

// ptp is the simplest network that reaches the host, for plugins that build on one.
const ptp = `{"type": "ptp", ` + pool + `}`

func mainScenarios() []scenario {
	return []scenario{
		{
			plugin:  "bridge",
			plugins: `{"type": "bridge", "bridge": "br-test", "isGateway": true, "ipMasq": true, "hairpinMode": true, ` + pool + `}`,
			works: func(a *attachment, _ *namespace) error {
				if err := hasPort("br-test"); err != nil {
					return err
				}

				return reachesHost(a)
			},
			gone: func(*attachment) error {
				if hasPort("br-test") == nil {
					return errors.New("the bridge still has a port")
				}

				return nil
			},
			tidy: func() { removeLink("br-test") },
		},
		{
			plugin:  "ptp",
			plugins: `{"type": "ptp", "ipMasq": true, ` + pool + `}`,
			works:   func(a *attachment, _ *namespace) error { return reachesHost(a) },
		},
		{
			plugin:  "macvlan",
			plugins: `{"type": "macvlan", "master": "parent", "mode": "bridge", ` + pool + `}`,
			prepare: func(peer *namespace) error {
				return sibling(peer, func(parent int) netlink.Link {
					return &netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "sibling", ParentIndex: parent}, Mode: netlink.MACVLAN_MODE_BRIDGE}
				})
			},
			works: reachesNeighbour,
			tidy:  func() { removeLink("parent") },
		},
		{
			plugin:  "ipvlan",
			plugins: `{"type": "ipvlan", "master": "parent", "mode": "l2", ` + pool + `}`,
			prepare: func(peer *namespace) error {
				return sibling(peer, func(parent int) netlink.Link {
					return &netlink.IPVlan{LinkAttrs: netlink.LinkAttrs{Name: "sibling", ParentIndex: parent}, Mode: netlink.IPVLAN_MODE_L2}
				})
			},
			works: reachesNeighbour,
			tidy:  func() { removeLink("parent") },
		},
		{
			plugin:  "vlan",
			plugins: `{"type": "vlan", "master": "trunk", "vlanId": 42, ` + pool + `}`,
			prepare: func(peer *namespace) error {
				if err := addPair("trunk", "", peer, "trunk-end", ""); err != nil {
					return err
				}

				return peer.do(func() error { return addTagged("trunk-end", 42, neighbourIn) })
			},
			works: reachesNeighbour,
			tidy:  func() { removeLink("trunk") },
		},
		{
			plugin:  "host-device",
			plugins: `{"type": "host-device", "device": "device", ` + pool + `}`,
			prepare: func(peer *namespace) error { return addPair("device", "", peer, "device-end", neighbourIn) },
			works: func(a *attachment, peer *namespace) error {
				if a.host.has("device") {
					return errors.New("the device is still on the host")
				}

				return reachesNeighbour(a, peer)
			},
			gone: func(a *attachment) error {
				if !a.host.has("device") {
					return errors.New("the device did not come back to the host")
				}

				return nil
			},
			tidy: func() { removeLink("device") },
		},
	}
}

// sibling puts a second child of the pod's parent interface into the peer.
func sibling(peer *namespace, child func(parent int) netlink.Link) error {
	if err := addLink(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "parent"}}, ""); err != nil {
		return err
	}

	parent, err := netlink.LinkByName("parent")
	if err != nil {
		return err
	}

	link := child(parent.Attrs().Index)
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("adding a sibling: %w", err)
	}

	if err := netlink.LinkSetNsFd(link, int(peer.file.Fd())); err != nil {
		return err
	}

	return peer.do(func() error { return setUp("sibling", neighbourIn) })
}

func addTagged(parent string, id int, address string) error {
	link, err := netlink.LinkByName(parent)
	if err != nil {
		return err
	}

	return addLink(&netlink.Vlan{
		LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("%s.%d", parent, id), ParentIndex: link.Attrs().Index}, VlanId: id,
	}, address)
}

func reachesHost(a *attachment) error {
	return talk(a.pod, "", a.host, gateway+":7", gateway+":7", patience)
}

func reachesNeighbour(a *attachment, peer *namespace) error {
	return talk(a.pod, "", peer, neighbour+":7", neighbour+":7", patience)
}

// hasPort is nil when a bridge of the host has a port.
func hasPort(bridge string) error {
	link, err := netlink.LinkByName(bridge)
	if err != nil {
		return err
	}

	links, err := netlink.LinkList()
	if err != nil {
		return err
	}

	for _, port := range links {
		if port.Attrs().MasterIndex == link.Attrs().Index {
			return nil
		}
	}

	return fmt.Errorf("%s has no port", bridge)
}
