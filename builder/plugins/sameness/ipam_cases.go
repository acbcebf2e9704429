package sameness

import "fmt"

// ipamCases call the address plugins by themselves. They get the main plugin's configuration, whose
// type is not theirs.
func ipamCases() []Case {
	return []Case{hostLocal(), static()}
}

// ipamCall is a call with an IPAM section, on behalf of a main plugin.
func ipamCall(plugin, command, pod, what string, ipam object) Call {
	return Call{
		Plugin: plugin, Command: command, Pod: pod, What: what,
		Config: encode(object{"cniVersion": "1.0.0", "name": "net", "type": "bridge", "ipam": ipam}),
	}
}

func hostLocal() Case {
	small := object{"type": "host-local", "dataDir": DataDir + "/nets", "ranges": [][]object{{{"subnet": "10.89.0.0/30"}}}, "resolvConf": DataDir + "/resolv.conf"}
	large := with(small, object{"ranges": [][]object{
		{{"subnet": "10.90.0.0/24", "rangeStart": "10.90.0.10", "rangeEnd": "10.90.0.12", "gateway": "10.90.0.254"}, {"subnet": "10.91.0.0/24"}},
		{{"subnet": "fd01::/120"}},
	}})

	call := func(command, pod, what string, ipam object) Call {
		return ipamCall("host-local", command, pod, what, ipam)
	}

	c := Case{Name: "host-local", Files: map[string]string{"resolv.conf": "nameserver 192.0.2.53\nsearch example.org\noptions ndots:5\n"}}

	for i := range 3 {
		// The second finds the network full.
		add := call("ADD", fmt.Sprintf("pod-%d", i), "of a small network", small)
		add.Succeeds = i == 0
		c.Calls = append(c.Calls, add)
	}

	c.Calls = append(c.Calls, call("CHECK", "pod-0", "", small), call("CHECK", "pod-9", "of a stranger", small), call("ADD", "pod-0", "once more", small))
	c.Calls[len(c.Calls)-1].Observe = true

	for i := range 5 {
		add := call("ADD", fmt.Sprintf("pod-%d", i), "of a large network", large)
		add.Succeeds = true
		c.Calls = append(c.Calls, add)
	}

	for i, address := range []string{"10.91.0.55", "10.91.0.55", "10.92.0.1", "not an address"} {
		add := call("ADD", fmt.Sprintf("asking-%d", i), "asking for "+address, large)
		add.Env = map[string]string{"CNI_ARGS": "IP=" + address}
		c.Calls = append(c.Calls, add)
	}

	for _, v := range []variant{
		{"overlapping", object{"ranges": [][]object{{{"subnet": "10.90.0.0/24"}, {"subnet": "10.90.0.0/25"}}}}},
		{"no range", object{"ranges": nil}},
		{"a gateway elsewhere", object{"ranges": [][]object{{{"subnet": "10.90.0.0/24", "gateway": "10.95.0.1"}}}}},
		{"a tiny subnet", object{"ranges": [][]object{{{"subnet": "10.90.0.0/32"}}}}},
		{"no subnet", object{"ranges": [][]object{{{}}}}},
		{"no resolv.conf", object{"resolvConf": DataDir + "/nothing"}},
		{"the usual directory", object{"dataDir": nil}},
		{"a file as directory", object{"dataDir": DataDir + "/resolv.conf"}},
	} {
		c.Calls = append(c.Calls, call("ADD", "pod-0", v.what, with(small, v.changes)))
		c.Calls = append(c.Calls, call("DEL", "pod-0", v.what, with(small, v.changes)))
	}

	c.Calls[len(c.Calls)-1].Observe = true

	for i := range 3 {
		c.Calls = append(c.Calls, call("DEL", fmt.Sprintf("pod-%d", i), "", large))
	}

	c.Calls[len(c.Calls)-1].Observe = true

	return c
}

func static() Case {
	call := func(command, what string, ipam object) Call { return ipamCall("static", command, Pods[0], what, ipam) }

	add := call("ADD", "", fixed)
	add.Succeeds, add.Observe = true, true

	c := Case{Name: "static", Calls: []Call{add, call("CHECK", "", fixed), call("DEL", "", fixed)}}

	for _, arguments := range []string{"IP=10.1.1.2/24,fd00::2/64;GATEWAY=10.1.1.1", "IP=10.1.1.2", "IP=not an address", "GATEWAY=10.1.1.1"} {
		add := call("ADD", "arguments "+arguments, object{"type": "static"})
		add.Env = map[string]string{"CNI_ARGS": arguments}
		c.Calls = append(c.Calls, add)
	}

	for _, v := range []variant{
		{"no prefix", object{"addresses": []object{{"address": "10.10.0.5"}}}},
		{"no address", object{"addresses": []object{{}}}},
		{"a gateway elsewhere", object{"addresses": []object{{"address": "10.10.0.5/24", "gateway": "10.11.0.1"}}}},
		{"a wrong route", object{"addresses": []object{{"address": "10.10.0.5/24"}}, "routes": []object{{"dst": "nowhere"}}}},
		{"nothing", object{}},
	} {
		c.Calls = append(c.Calls, call("ADD", v.what, with(v.changes, object{"type": "static"})))
	}

	told := call("ADD", "told by the runtime", object{"type": "static"})
	told.Config = encode(object{
		"cniVersion": "1.0.0", "name": "net", "type": "bridge", "ipam": object{"type": "static"}, "runtimeConfig": object{"ips": []string{"10.2.2.2/24"}},
	})

	c.Calls = append(c.Calls, told)

	return c
}
