package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
)

// A machine outside the node, which reaches the node over uplink.
const (
	outside  = "192.0.2.9"
	nodeAddr = "192.0.2.1"
)

func metaScenarios() []scenario {
	return []scenario{
		portmapScenario("iptables"),
		portmapScenario("nftables"),
		{
			plugin:  "firewall",
			plugins: ptp + `, {"type": "firewall", "backend": "iptables"}`,
			prepare: func(peer *namespace) error {
				if err := uplink(peer); err != nil {
					return err
				}

				return command("iptables", "-P", "FORWARD", "DROP")
			},
			works: func(a *attachment, peer *namespace) error {
				if err := talk(a.pod, "", peer, outside+":7", outside+":7", patience); err != nil {
					return err
				}

				// An address that the plugin was not told of stays shut out.
				const stranger = "10.77.0.99"

				if err := a.pod.do(func() error { return setUp(ifname, stranger+"/24") }); err != nil {
					return err
				}

				return silent(a.pod, stranger, peer, outside+":7", outside+":7")
			},
			gone: func(*attachment) error { return wantNoRule("10.77.0.20") },
			tidy: func() {
				_ = command("iptables", "-P", "FORWARD", "ACCEPT")
				removeLink("uplink")
			},
		},
		{
			plugin:  "bandwidth",
			plugins: ptp + `, {"type": "bandwidth", "ingressRate": 8000000, "ingressBurst": 800000, "egressRate": 8000000, "egressBurst": 800000}`,
			works: func(a *attachment, _ *namespace) error {
				// One limit on the host's end of the pair, one on an ifb that the other way leads through.
				if err := wantShaped("veth", "ifb"); err != nil {
					return err
				}

				return reachesHost(a)
			},
			gone: func(*attachment) error {
				if wantShaped("ifb") == nil {
					return errors.New("a shaped ifb is left")
				}

				return nil
			},
		},
		{
			plugin:  "sbr",
			plugins: ptp + `, {"type": "sbr"}`,
			moves:   true,
			works: func(a *attachment, _ *namespace) error {
				if err := a.pod.do(func() error { return wantSourceRoute(a.address) }); err != nil {
					return err
				}

				// Routes are by source now, so the source has to be told.
				return talk(a.pod, a.address.String(), a.host, gateway+":7", gateway+":7", patience)
			},
		},
		{
			plugin:  "tuning",
			plugins: ptp + `, {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_announce": "2"}, "mtu": 1337, "mac": "02:00:00:00:13:37"}`,
			works: func(a *attachment, _ *namespace) error {
				return a.pod.do(func() error {
					value, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + ifname + "/arp_announce")
					if err != nil {
						return err
					}

					link, err := netlink.LinkByName(ifname)
					if err != nil {
						return err
					}

					if got := fmt.Sprintf("%s %d %s", strings.TrimSpace(string(value)), link.Attrs().MTU, link.Attrs().HardwareAddr); got != "2 1337 02:00:00:00:13:37" {
						return fmt.Errorf("arp_announce, MTU and MAC are %s", got)
					}

					return nil
				})
			},
		},
		{
			plugin:  "vrf",
			plugins: ptp + `, {"type": "vrf", "vrfname": "red", "table": 77}`,
			moves:   true,
			works: func(a *attachment, _ *namespace) error {
				return a.pod.do(func() error {
					vrf, err := netlink.LinkByName("red")
					if err != nil {
						return err
					}

					link, err := netlink.LinkByName(ifname)
					if err != nil {
						return err
					}

					if got, ok := vrf.(*netlink.Vrf); !ok || got.Table != 77 || link.Attrs().MasterIndex != vrf.Attrs().Index {
						return fmt.Errorf("%s is not in vrf red with table 77: %+v", ifname, vrf)
					}

					return nil
				})
			},
			gone: func(a *attachment) error {
				if a.pod.has("red") {
					return errors.New("the vrf is left")
				}

				return nil
			},
		},
	}
}

// portmapScenario publishes a port of the pod; a machine outside connects to the node's address.
func portmapScenario(backend string) scenario {
	const published, inside = "8080", "7"

	return scenario{
		plugin:  "portmap",
		name:    backend,
		plugins: ptp + `, {"type": "portmap", "backend": "` + backend + `", "capabilities": {"portMappings": true}}`,
		capabilities: map[string]any{
			"portMappings": []map[string]any{{"hostPort": 8080, "containerPort": 7, "protocol": "tcp"}},
		},
		prepare: uplink,
		works: func(a *attachment, peer *namespace) error {
			return talk(peer, "", a.pod, a.address.String()+":"+inside, nodeAddr+":"+published, patience)
		},
		gone: func(*attachment) error { return wantNoRule("10.77.0.20") },
		tidy: func() { removeLink("uplink") },
	}
}

// uplink connects the peer to the node, which is its gateway.
func uplink(peer *namespace) error {
	if err := addPair("uplink", nodeAddr+"/24", peer, "uplink-end", outside+"/24"); err != nil {
		return err
	}

	return peer.do(func() error {
		return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(nodeAddr)})
	})
}

// wantNoRule wants no packet filter rule to name an address any more.
func wantNoRule(address string) error {
	out, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		return fmt.Errorf("listing rules: %w: %s", err, out)
	}

	if strings.Contains(string(out), address) {
		return fmt.Errorf("there is still a rule for %s:\n%s", address, out)
	}

	return nil
}

// wantShaped wants a token bucket filter on an interface of each of these types.
func wantShaped(kinds ...string) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}

	for _, kind := range kinds {
		found := false

		for _, link := range links {
			if link.Type() != kind {
				continue
			}

			qdiscs, err := netlink.QdiscList(link)
			if err != nil {
				return err
			}

			for _, qdisc := range qdiscs {
				found = found || qdisc.Type() == "tbf"
			}
		}

		if !found {
			return fmt.Errorf("no %s has a token bucket filter", kind)
		}
	}

	return nil
}

// wantSourceRoute wants a rule that sends what comes from an address to a table of its own, and a
// default route in that table.
func wantSourceRoute(address net.IP) error {
	rules, err := netlink.RuleList(netlink.FAMILY_V4)
	if err != nil {
		return err
	}

	for _, rule := range rules {
		if rule.Src == nil || !rule.Src.IP.Equal(address) {
			continue
		}

		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: rule.Table}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}

		for _, route := range routes {
			if route.Gw.Equal(net.ParseIP(gateway)) {
				return nil
			}
		}

		return fmt.Errorf("table %d has no route through %s: %v", rule.Table, gateway, routes)
	}

	return fmt.Errorf("no rule for %s: %v", address, rules)
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}

	return nil
}
