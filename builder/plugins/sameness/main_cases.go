package sameness

var (
	defaultRoute = []object{{"dst": "0.0.0.0/0"}}
	bothRoutes   = []object{{"dst": "0.0.0.0/0"}, {"dst": "::/0"}}

	oneSubnet  = [][]object{{{"subnet": "10.88.0.0/24"}}}
	twoSubnets = [][]object{{{"subnet": "10.88.0.0/24"}}, {{"subnet": "fd00:88::/64"}}}

	pool = object{"type": "host-local", "dataDir": DataDir + "/nets", "ranges": oneSubnet, "routes": defaultRoute}
	dual = with(pool, object{"ranges": twoSubnets, "routes": bothRoutes})

	fixed = object{
		"type":      "static",
		"addresses": []object{{"address": "10.10.0.5/24", "gateway": "10.10.0.1"}, {"address": "fd00:10::5/64", "gateway": "fd00:10::1"}},
		"routes":    []object{{"dst": "0.0.0.0/0"}, {"dst": "192.168.0.0/16", "gw": "10.10.0.9", "mtu": 1300}},
		"dns":       object{"nameservers": []string{"192.0.2.53"}, "search": []string{"example.org"}},
	}

	bridged = object{"type": "bridge", "bridge": "cni9", "isGateway": true, "ipMasq": true, "hairpinMode": true, "ipam": pool}
	routed  = object{"type": "ptp", "ipMasq": true, "mtu": 1400, "ipam": pool}

	// uplink is a pair of links on the node, for plugins that want one to start from.
	uplink = Link{Name: "up0", Peer: "up1"}
)

// mainCases are about the plugins that make interfaces.
func mainCases() []Case {
	var cases []Case

	for _, version := range []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		plugin := bridged
		if version < "0.3" {
			// The form of those days.
			plugin = with(bridged, object{"ipam": object{"type": "host-local", "dataDir": DataDir + "/nets", "subnet": "10.88.0.0/24", "routes": defaultRoute}})
		}

		cases = append(cases, story("bridge "+version, list{version: version, plugins: []object{plugin}}))
	}

	for _, backend := range []string{"iptables", "nftables"} {
		cases = append(cases,
			story("bridge masquerading by "+backend, list{plugins: []object{with(bridged, object{"ipMasqBackend": backend, "ipam": dual})}}),
			story("ptp masquerading by "+backend, list{plugins: []object{with(routed, object{"ipMasqBackend": backend, "ipam": dual})}}))
	}

	cases = append(cases,
		story("bridge with fixed addresses", list{plugins: []object{with(bridged, object{"ipMasq": false, "hairpinMode": false, "promiscMode": true, "macspoofchk": true, "ipam": fixed})}}),
		story("bridge with vlan", list{plugins: []object{with(bridged, object{"vlan": 100, "vlanTrunk": []object{{"minID": 200, "maxID": 202}}})}}).needing("bridge vlan_filtering 1"),
		story("bridge without addresses", list{plugins: []object{{"type": "bridge", "bridge": "cni9", "ipam": object{}, "portIsolation": true}}}),
		story("bridge without interface", list{plugins: []object{{"type": "bridge", "bridge": "cni9", "ipam": object{}, "disableContainerInterface": true}}}),
		story("bridge told addresses", list{
			plugins: []object{with(bridged, object{"capabilities": object{"mac": true, "ips": true}})},
			runtime: object{"mac": "c2:11:22:33:44:55", "ips": []string{"10.88.0.77/24"}},
		}, list{
			name: "by arguments", version: "1.0.0", plugins: []object{bridged},
			env: map[string]string{"CNI_ARGS": "IgnoreUnknown=1;IP=10.88.0.99;MAC=c2:11:22:33:44:56;K8S_POD_NAME=pod"},
		}),
		story("bridge that exists with another address", list{plugins: []object{bridged}, pod: Pods[0]}, list{
			name: "moved", plugins: []object{with(bridged, object{"forceAddress": true, "isDefaultGateway": true, "ipam": with(pool, object{"ranges": [][]object{{{"subnet": "10.89.0.0/24"}}}, "routes": nil})})},
		}),
		twoPods(),
		story("ptp", list{plugins: []object{routed}}, list{name: "fixed", version: "0.4.0", plugins: []object{with(routed, object{"ipam": fixed, "dns": object{"nameservers": []string{"192.0.2.54"}}})}}),
	)

	for _, mode := range []string{"bridge", "private", "vepa", "passthru"} {
		cases = append(cases, story("macvlan "+mode, list{plugins: []object{{"type": "macvlan", "master": "up0", "mode": mode, "mtu": 1300, "ipam": pool}}}).on(uplink))
	}

	return append(cases,
		story("macvlan with fixed addresses", list{version: "0.3.1", plugins: []object{{"type": "macvlan", "master": "up0", "mac": "c2:11:22:33:44:57", "ipam": fixed}}}).on(uplink),
		story("macvlan on the pod's link", list{plugins: []object{{"type": "macvlan", "master": "inside", "linkInContainer": true, "ipam": pool}}}).on(Link{Name: "outside", Peer: "inside", Pod: Pods[0]}),
		story("macvlan without a master", list{fails: true, plugins: []object{{"type": "macvlan", "master": "nothing", "ipam": pool}}}),
		story("ipvlan l2", list{plugins: []object{{"type": "ipvlan", "master": "up0", "mode": "l2", "ipam": pool}}}).on(uplink).needing("ipvlan"),
		story("ipvlan l3", list{version: "0.4.0", plugins: []object{{"type": "ipvlan", "master": "up0", "mode": "l3", "mtu": 1300, "ipam": fixed}}}).on(uplink).needing("ipvlan"),
		story("vlan", list{plugins: []object{{"type": "vlan", "master": "up0", "vlanId": 5, "ipam": pool}}}).on(uplink).needing("vlan"),
		story("vlan with mtu", list{version: "0.4.0", plugins: []object{{"type": "vlan", "master": "up0", "vlanId": 6, "mtu": 1400, "ipam": fixed}}}).on(uplink).needing("vlan"),
		story("host-device", list{plugins: []object{{"type": "host-device", "device": "up1", "ipam": fixed}}}).on(uplink),
		story("host-device from a pool", list{version: "0.4.0", plugins: []object{{"type": "host-device", "device": "up1", "ipam": pool}}}).on(uplink),
		story("host-device without addresses", list{version: "0.3.1", plugins: []object{{"type": "host-device", "device": "up1"}}}).on(uplink),
		story("host-device that is missing", list{fails: true, plugins: []object{{"type": "host-device", "device": "nothing"}}}, list{name: "by bus", fails: true, plugins: []object{{"type": "host-device", "pciBusID": "0000:ff:1f.7"}}}),
	)
}

// twoPods share a bridge; then one of them is collected as garbage, and deleted all the same.
func twoPods() Case {
	first, second := list{plugins: []object{bridged}}.calls(), list{plugins: []object{bridged}, pod: Pods[1]}.calls()

	calls := []Call{first[0], second[0]}

	for _, call := range second {
		if call.Command == "GC" {
			calls = append(calls, call)
		}
	}

	for _, call := range append(first, second...) {
		if call.Command == "DEL" {
			calls = append(calls, call)
		}
	}

	return Case{Name: "bridge with two pods", Calls: calls}
}
