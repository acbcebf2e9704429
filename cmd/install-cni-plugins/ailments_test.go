package main

import (
	bits "encoding/binary"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/doctor"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

const soundConfig = `{"cniVersion": "0.3.1", "type": "bridge", "bridge": "br0", "ipam": {"type": "static"}}`

func setConfig(config string) func(*patient) {
	return func(p *patient) { p.config = config }
}

func writeBin(name, content string) func(*patient) {
	return func(p *patient) { write(p.t, p.inBin(name), content) }
}

// edit changes bytes of a plugin on the node.
func edit(name string, change func([]byte) []byte) func(*patient) {
	return func(p *patient) {
		data, err := os.ReadFile(p.inBin(name))
		must(p.t, err)
		write(p.t, p.inBin(name), string(change(data)))
	}
}

// multusDaemonSet is Multus's DaemonSet, as far as it matters, with these hostPaths mounted.
func multusDaemonSet(env []any, paths ...string) map[string]any {
	var volumes, mounts []any

	for _, path := range paths {
		host, inside, _ := strings.Cut(path, ":")
		name := strings.ReplaceAll(strings.Trim(host, "/"), "/", "-") + "x"
		volumes = append(volumes, map[string]any{"name": name, "hostPath": map[string]any{"path": host}})
		mounts = append(mounts, map[string]any{"name": name, "mountPath": inside})
	}

	return map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]string{"namespace": "kube-system", "name": "kube-multus-ds"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "kube-multus", "command": []string{"/usr/src/multus-cni/bin/multus-daemon"}, "env": env, "volumeMounts": mounts}},
			"volumes":    volumes,
		}}},
	}
}

// ailments are broken nodes, at least one for each verdict.
var ailments = []ailment{
	{verdict: doctor.BadJSON, name: "attachment", says: "Correct default/lan spec.config:2:24",
		break_: setConfig("{\"type\": \"bridge\",\n  \"ipam\": {\"type\": \"s\",}}"), do: setConfig(soundConfig)},
	{verdict: doctor.BadJSON, name: "file of the node", says: "Correct /etc/cni/net.d/00-multus.conf:1:2",
		break_: func(p *patient) { p.write("etc/cni/net.d/00-multus.conf", "type: multus") },
		do: func(p *patient) {
			p.write("etc/cni/net.d/00-multus.conf", `{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus-shim"}`)
		}},
	{verdict: doctor.BadConfig, name: "no type", says: "Correct default/lan spec.config: neither",
		break_: setConfig(`{"cniVersion": "0.3.1", "bridge": "br0"}`), do: setConfig(soundConfig)},
	{verdict: doctor.BadConfig, name: "slash", says: `"../bridge" is not the name of a plugin`,
		break_: setConfig(`{"type": "../bridge"}`), do: setConfig(soundConfig)},
	{verdict: doctor.BadConfig, name: "name", says: `letters, digits, dots`,
		break_: setConfig(`{"cniVersion": "0.3.1", "name": "my lan", "type": "bridge"}`), do: setConfig(soundConfig)},
	{verdict: doctor.BadConfig, name: "cluster network", says: "Start the CNI that writes 10-primary.conflist",
		break_: func(p *patient) {
			p.write("etc/cni/net.d/00-multus.conf", `{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus-shim", "clusterNetwork": "/host/etc/cni/net.d/10-primary.conflist"}`)
		},
		do: func(p *patient) { p.write("etc/cni/multus/net.d/10-primary.conflist", "{}") }},
	{verdict: doctor.NoConfig, says: "Write a CNI configuration into default/lan spec.config",
		break_: setConfig(""), do: setConfig(soundConfig)},
	{verdict: doctor.BinDirMissing, says: "where the node has none yet, make /opt/cni/bin",
		break_: func(p *patient) {
			must(p.t, os.RemoveAll(p.bin))
			must(p.t, os.Remove(p.at("etc/cni/net.d/00-multus.conf")))
			p.write("etc/cni/net.d/10-lan.conflist", `{"cniVersion": "1.0.0", "name": "primary", "plugins": [{"type": "bridge"}]}`)
			p.plain, p.config = true, strings.Replace(soundConfig, "{", `{"name": "lan", `, 1)
		}},
	{verdict: doctor.ConfDirMissing, name: "empty", says: "Start the CNI that writes there",
		break_: func(p *patient) {
			must(p.t, os.Remove(p.at("etc/cni/net.d/00-multus.conf")))
			p.plain, p.config = true, strings.Replace(soundConfig, "{", `{"name": "lan", `, 1)
		},
		do: func(p *patient) {
			p.write("etc/cni/net.d/10-lan.conflist", `{"cniVersion": "1.0.0", "name": "primary", "plugins": [{"type": "bridge"}]}`)
		}},
	{verdict: doctor.ConfDirMissing, says: "--conf-dir",
		break_: func(p *patient) {
			must(p.t, os.Rename(p.conf, p.at("etc/cni/conf.d")))
			p.extra = []string{"--conf-dir", "/etc/cni/net.d"}
		},
		do: func(p *patient) { p.extra = []string{"--conf-dir", "/etc/cni/conf.d"} }},
	{verdict: doctor.MultusBinDir, name: "not mounted", says: "Mount /opt/cni/bin of the node into Multus's container at the same path",
		break_: func(p *patient) {
			p.more = []any{multusDaemonSet(nil, "/opt/cni/bin:/host/opt/cni/bin", "/:/hostroot")}
		},
		do: func(p *patient) { p.more = []any{multusDaemonSet(nil, "/opt/cni/bin:/opt/cni/bin", "/:/hostroot")} }},
	{verdict: doctor.MultusBinDir, name: "not on the node", says: "Set binDir in Multus's configuration to the node's bin directory (/opt/cni/bin)",
		break_: func(p *patient) {
			p.write("../daemon-config.json", `{"binDir": "/cni"}`)
			p.extra = []string{"--multus-config", p.at("../daemon-config.json")}
			p.more = []any{multusDaemonSet(nil, "/opt/cni/bin:/cni")}
		},
		do: func(p *patient) {
			p.write("../daemon-config.json", `{"binDir": "/opt/cni/bin"}`)
			p.more = []any{multusDaemonSet(nil, "/opt/cni/bin:/opt/cni/bin")}
		}},
	{verdict: doctor.MultusBinDir, name: "of another distribution", says: "Set binDir in Multus's configuration to the node's bin directory (/var/lib/rancher/k3s/data/cni)",
		break_: func(p *patient) {
			k3s := p.at("var/lib/rancher/k3s")
			must(p.t, os.MkdirAll(k3s+"/data", 0o755))
			must(p.t, os.Rename(p.bin, k3s+"/data/cni"))
			must(p.t, os.MkdirAll(k3s+"/agent/etc/cni", 0o755))
			must(p.t, os.Rename(p.conf, k3s+"/agent/etc/cni/net.d"))
			p.extra = []string{"--distro", "k3s"}
		},
		do: func(p *patient) {
			p.write("var/lib/rancher/k3s/agent/etc/cni/net.d/00-multus.conf", `{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus-shim", "binDir": "/var/lib/rancher/k3s/data/cni"}`)
		}},
	{verdict: doctor.MultusNetNS, says: "Mount /var/run/netns of the node into Multus's container",
		break_: func(p *patient) {
			p.extra = []string{"--distro", "talos"}
			p.more = []any{multusDaemonSet(nil, "/opt/cni/bin:/opt/cni/bin", "/run/netns:/run/netns")}
		},
		do: func(p *patient) {
			p.more = []any{multusDaemonSet(nil, "/opt/cni/bin:/opt/cni/bin", "/var/run/netns/:/run/netns")}
		}},
	{verdict: doctor.NoExec, says: "Remount the file system of /opt/cni/bin with exec",
		break_: func(p *patient) {
			testplugins.NeedRoot(p.t)
			must(p.t, os.Rename(p.bin, p.bin+".old"))
			must(p.t, os.Mkdir(p.bin, 0o755))
			testplugins.Need(p.t, syscall.Mount("tmpfs", p.bin, "tmpfs", syscall.MS_NOEXEC, ""), "mounting tmpfs")
			p.t.Cleanup(func() { _ = syscall.Unmount(p.bin, 0) })

			for _, name := range []string{"bridge", "static", "multus-shim"} {
				testplugins.Copy(p.t, p.bin+".old/"+name, p.inBin(name))
			}
		}},
	{verdict: doctor.Missing, says: "Stage bridge into /opt/cni/bin",
		break_: func(p *patient) { p.remove("bridge") }},
	{verdict: doctor.Missing, name: "of a delegate", says: "Stage macvlan into /opt/cni/bin",
		break_: func(p *patient) {
			p.write("etc/cni/net.d/00-multus.conf", `{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus-shim",
				"delegates": [{"cniVersion": "0.3.1", "name": "inner", "plugins": [{"type": "bridge"}, {"type": "macvlan"}]}]}`)
		}},
	{verdict: doctor.Missing, name: "on Talos", says: "Bake bridge into the node image",
		break_: func(p *patient) { p.remove("bridge"); p.extra = []string{"--distro", "talos"} }},
	{verdict: doctor.WrongDirectory, says: "name it with --bin-dir",
		break_: func(p *patient) {
			must(p.t, os.MkdirAll(p.at("usr/lib/cni"), 0o755))
			must(p.t, os.Rename(p.inBin("bridge"), p.at("usr/lib/cni/bridge")))
		}},
	{verdict: doctor.NotCarried, says: "--with dhcp",
		break_: setConfig(strings.Replace(soundConfig, `"static"`, `"dhcp"`, 1)), do: setConfig(soundConfig)},
	{verdict: doctor.ThirdParty, says: "Install whereabouts anew: the plugin whereabouts is part of it",
		break_: setConfig(strings.Replace(soundConfig, `"static"`, `"whereabouts"`, 1)),
		do:     func(p *patient) { p.stage("static", "whereabouts") }},
	{verdict: doctor.NotAFile, says: "Remove /opt/cni/bin/bridge, which is a directory",
		break_: func(p *patient) { p.remove("bridge"); must(p.t, os.Mkdir(p.inBin("bridge"), 0o755)) }},
	{verdict: doctor.DanglingSymlink, says: "Stage bridge",
		break_: func(p *patient) { p.link("../../../gone/bridge", "bridge") }},
	{verdict: doctor.DanglingSymlink, name: "absolute in the node's tree", says: "Stage bridge",
		// This program's own root has the target, the node's has not.
		break_: func(p *patient) { p.link(filepath.Join(p.source, "bridge"), "bridge") }},
	{verdict: doctor.EscapingSymlink, name: "not in Multus's container", says: "Mount /opt of the node into Multus's container at the same path",
		break_: func(p *patient) {
			p.write("opt/plugins/README", "")
			must(p.t, os.Rename(p.inBin("bridge"), p.at("opt/plugins/bridge")))
			p.link("/opt/plugins/bridge", "bridge")
			p.more = []any{multusDaemonSet(nil, "/opt/cni/bin:/opt/cni/bin")}
		},
		do: func(p *patient) { p.more = []any{multusDaemonSet(nil, "/opt:/opt")} }},
	{verdict: doctor.EscapingSymlink, name: "not on the node", says: "Stage bridge into /opt/cni/bin",
		break_: func(p *patient) {
			p.link("/plugins/bridge", "bridge")
			p.write("srv/bridge", "a program of Multus's image")
			p.more = []any{multusDaemonSet(nil, "/opt/cni/bin:/opt/cni/bin", "/srv:/plugins")}
		}},
	{verdict: doctor.NotAProgram, name: "text", says: "Stage bridge", break_: writeBin("bridge", "<html>404 Not Found</html>")},
	{verdict: doctor.NotAProgram, name: "empty", says: "Stage bridge", break_: writeBin("bridge", "")},
	{verdict: doctor.Truncated, name: "in the middle", says: "Stage bridge", break_: edit("bridge", func(b []byte) []byte { return b[:len(b)/2] })},
	{verdict: doctor.Truncated, name: "in the headers", says: "Stage bridge", break_: edit("bridge", func(b []byte) []byte { return b[:100] })},
	{verdict: doctor.WrongArchitecture, says: "Stage bridge",
		break_: edit("bridge", func(b []byte) []byte {
			machine := uint16(0xB7) // AArch64
			if runtime.GOARCH == "arm64" {
				machine = 0x3E
			}

			bits.LittleEndian.PutUint16(b[18:], machine)

			return b
		})},
	{verdict: doctor.Dynamic, name: "script", says: "Stage bridge", break_: writeBin("bridge", "#!/usr/bin/python3\n")},
	{verdict: doctor.Dynamic, name: "loader", says: "Stage bridge",
		break_: func(p *patient) {
			// The shell of the machine is linked dynamically; the node has no loader.
			testplugins.Copy(p.t, "/bin/sh", p.inBin("bridge"))
		}},
	{verdict: doctor.NotExecutable, name: "ours", says: "Stage bridge into /opt/cni/bin",
		break_: func(p *patient) { must(p.t, os.Chmod(p.inBin("bridge"), 0o644)) }},
	{verdict: doctor.NotExecutable, name: "another's", says: "Make /opt/cni/bin/multus-shim executable",
		break_: func(p *patient) { must(p.t, os.Chmod(p.inBin("multus-shim"), 0o644)) }},
	{verdict: doctor.DoesNotRun, says: "Stage bridge",
		break_: func(p *patient) { testplugins.Copy(p.t, p.wrongProgram(), p.inBin("bridge")) }},
	{verdict: doctor.Shadowed, says: "Remove /srv/cni/bridge",
		break_: func(p *patient) {
			p.write("srv/cni/README", "")
			testplugins.Copy(p.t, p.inBin("static"), p.at("srv/cni/bridge"))
			p.extra = []string{"--bin-dir", "/srv/cni,/opt/cni/bin"}
			p.write("etc/cni/net.d/00-multus.conf", `{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus-shim", "binDir": "/srv/cni"}`)
		}},
	{verdict: doctor.UnsupportedVersion, says: `Set "cniVersion" of default/lan spec.config to "1.1.0"`,
		break_: setConfig(strings.Replace(soundConfig, "0.3.1", "9.9.9", 1)),
		do:     setConfig(strings.Replace(soundConfig, "0.3.1", "1.1.0", 1))},
	{verdict: doctor.NoKernelDriver, name: "module on Talos", says: "machine:\n  kernel:\n    modules:\n      - name: vrf",
		break_: func(p *patient) {
			p.stage("vrf", "vrf")
			p.config = `{"cniVersion": "0.3.1", "plugins": [` + soundConfig + `, {"type": "vrf", "vrfname": "blue"}]}`
			p.extra = []string{"--distro", "talos"}
			p.kernel("bridge", "veth")
			p.modulesOf("kernel/drivers/net/vrf.ko.xz:")
		},
		do: func(p *patient) { p.kernel("bridge", "veth", "vrf") }},
	{verdict: doctor.NoKernelDriver, name: "absent", says: "Or leave out egressRate",
		break_: func(p *patient) {
			p.stage("bandwidth", "bandwidth")
			p.config = `{"cniVersion": "0.3.1", "plugins": [` + soundConfig + `, {"type": "bandwidth", "egressRate": 1000}]}`
			p.extra = []string{"--distro", "talos"}
			p.kernel("bridge", "veth", "sch_tbf")
			p.modulesOf("")
		},
		do: func(p *patient) { p.config = strings.Replace(p.config, "egressRate", "ingressRate", 1) }},
	{verdict: doctor.NoDHCPDaemon, says: `Run "dhcp daemon"`,
		break_: func(p *patient) {
			p.stage("static", "dhcp")
			p.config = strings.Replace(soundConfig, `"static"`, `"dhcp"`, 1)
		},
		do: func(p *patient) {
			// The path of a socket may have 107 bytes.
			dir, err := os.Open(p.at("run/cni"))
			must(p.t, err)
			p.t.Cleanup(func() { dir.Close() })

			l, err := net.Listen("unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), "dhcp.sock"))
			must(p.t, err)
			p.t.Cleanup(func() { l.Close() })
		}},
	{verdict: doctor.VMNeedsBridge, says: `{"bridge":"br0","cniVersion":"0.3.1","name":"lan","type":"bridge"}`,
		break_: func(p *patient) {
			p.stage("macvlan", "macvlan")
			p.config = strings.Replace(soundConfig, `"bridge", "bridge": "br0"`, `"macvlan", "master": "eth0"`, 1)
			p.more = []any{map[string]any{
				"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": map[string]string{"namespace": "default", "name": "guest"},
				"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"networks": []any{
					map[string]any{"name": "lan", "multus": map[string]string{"networkName": "lan"}},
				}}}},
			}}
		},
		do: setConfig(`{"bridge":"br0","cniVersion":"0.3.1","name":"lan","type":"bridge"}`)},
	{verdict: doctor.CiliumBackup, says: "Set cni.exclusive=false",
		break_: func(p *patient) {
			must(p.t, os.Rename(p.at("etc/cni/net.d/00-multus.conf"), p.at("etc/cni/net.d/00-multus.conf.cilium_bak")))
		}},
	{verdict: doctor.MultusConfAbsent, says: "Restart Multus",
		break_: func(p *patient) {
			must(p.t, os.Rename(p.at("etc/cni/net.d/00-multus.conf"), p.at("etc/multus.conf")))
		},
		do: func(p *patient) {
			must(p.t, os.Rename(p.at("etc/multus.conf"), p.at("etc/cni/net.d/00-multus.conf")))
		}},
	{verdict: doctor.MultusNotFirst, says: "Let Multus be the only writer of /etc/cni/net.d",
		break_: func(p *patient) {
			p.write("etc/cni/net.d/00-a.conflist", `{"cniVersion": "1.0.0", "name": "primary", "plugins": [{"type": "bridge"}]}`)
		}},
	{verdict: doctor.SecondWriter, says: "make the primary CNI write to /etc/cni/multus/net.d",
		break_: func(p *patient) {
			p.write("etc/cni/net.d/10-primary.conflist", `{"cniVersion": "1.0.0", "name": "primary", "plugins": [{"type": "bridge"}]}`)
		}},
}
