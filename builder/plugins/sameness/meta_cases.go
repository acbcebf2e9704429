package sameness

import "strings"

var (
	portMappings = object{"portMappings": []object{
		{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
		{"hostPort": 5353, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"},
		{"hostPort": 9090, "containerPort": 90, "protocol": "tcp", "hostIP": "10.1.2.3"},
	}}

	published = object{"type": "portmap", "snat": true, "capabilities": object{"portMappings": true}}
	guarded   = object{"type": "firewall", "backend": "iptables"}
	limited   = object{"type": "bandwidth", "ingressRate": 1_000_000, "ingressBurst": 2_000_000, "egressRate": 3_000_000, "egressBurst": 4_000_000}
	bySource  = object{"type": "sbr"}
	tuned     = object{
		"type": "tuning", "dataDir": DataDir + "/tuning", "mac": "c2:aa:bb:cc:dd:ee", "mtu": 1454, "promisc": true, "allmulti": true, "txQLen": 999,
		"sysctl": object{"net.ipv4.conf.IFNAME.arp_filter": "1", "net.core.somaxconn": "500", "net.ipv4.ip_local_port_range": "2000 3000"},
	}
	separated = object{"type": "vrf", "vrfname": "red", "table": 77}
)

// metaCases are about the plugins that change what another one made.
func metaCases() []Case {
	var cases []Case

	chained := func(changes ...object) []object {
		return append([]object{with(bridged, object{"ipam": dual})}, changes...)
	}

	for _, v := range []variant{
		{"iptables", object{"conditionsV4": []string{"-s", "10.0.0.0/8"}}},
		{"nftables", object{"conditionsV4": []string{"ip", "saddr", "10.0.0.0/8"}}},
	} {
		portmap := with(published, object{"backend": v.what})

		cases = append(cases, story("portmap by "+v.what,
			list{plugins: chained(with(portmap, v.changes)), runtime: portMappings},
			list{name: "mark bit", version: "0.4.0", plugins: []object{bridged, with(portmap, object{"markMasqBit": 5})}, runtime: portMappings}))
	}

	for _, policy := range []string{"", "open", "same-bridge", "isolated"} {
		firewall := guarded
		if policy != "" {
			firewall = with(guarded, object{"ingressPolicy": policy})
		}

		cases = append(cases, story(strings.TrimSpace("firewall "+policy), list{version: "1.0.0", plugins: chained(firewall)}))
	}

	return append(cases,
		story("portmap with another program's chain", list{
			version: "1.0.0", plugins: []object{bridged, with(published, object{"snat": nil, "externalSetMarkChain": "KUBE-MARK-MASQ"})}, runtime: portMappings, fails: true,
		}),
		story("portmap without ports", list{plugins: []object{bridged, published}, runtime: object{"portMappings": []object{}}}),
		story("firewall of the administrator", list{version: "0.4.0", plugins: []object{bridged, with(guarded, object{"backend": nil, "iptablesAdminChainName": "MY-ADMIN"})}}),
		story("firewall of unknown kind", list{fails: true, plugins: []object{bridged, with(guarded, object{"ingressPolicy": "other"})}},
			list{name: "firewalld", fails: true, plugins: []object{bridged, with(guarded, object{"backend": "firewalld"})}}),
		story("bandwidth", list{plugins: []object{bridged, limited}}).needing("ifb"),
		story("bandwidth told by the runtime", list{
			version: "0.3.1", plugins: []object{bridged, {"type": "bandwidth", "capabilities": object{"bandwidth": true}}},
			runtime: object{"bandwidth": object{"ingressRate": 1_000_000, "ingressBurst": 2_000_000, "egressRate": 3_000_000, "egressBurst": 4_000_000}},
		}).needing("ifb"),
		story("bandwidth with exceptions", list{plugins: []object{routed, with(limited, object{"unshapedSubnets": []string{"10.9.0.0/16"}})}}).needing("ifb"),
		story("bandwidth below zero", list{fails: true, plugins: []object{bridged, with(limited, object{"ingressRate": -1})}}),
		story("tuning", list{version: "1.0.0", plugins: []object{bridged, tuned}}),
		story("tuning what it may not", list{fails: true, plugins: []object{bridged, {"type": "tuning", "sysctl": object{"kernel.hostname": "x"}}}},
			// One sysctl under two spellings is no case: upstream writes both, in the random order of a map.
			list{name: "what is not there", fails: true, plugins: []object{bridged, {"type": "tuning", "sysctl": object{"net.no.such": "x"}}}}),
		story("sbr", list{version: "1.0.0", plugins: []object{bridged, bySource}}),
		story("sbr with a table", list{version: "0.4.0", plugins: chained(with(bySource, object{"table": 222, "addSourceHints": true}))}),
		story("vrf", list{plugins: []object{bridged, separated}}).needing("vrf"),
		story("vrf without a table", list{version: "0.4.0", plugins: []object{routed, with(separated, object{"table": nil})}}).needing("vrf"),
		story("everything at once", list{
			version: "1.0.0", runtime: portMappings, plugins: chained(with(tuned, object{"sysctl": object{}}), published, with(guarded, object{"ingressPolicy": "same-bridge"}), limited, bySource),
		}).needing("ifb"),
	)
}
