package doctor

// Verdict is the machine name of something that is wrong. The names are stable.
type Verdict string

// The verdicts, most basic first: what to do is listed in this order.
const (
	BadJSON            Verdict = "bad-json"
	BadConfig          Verdict = "bad-config"
	NoConfig           Verdict = "no-config"
	BinDirMissing      Verdict = "bin-dir-missing"
	ConfDirMissing     Verdict = "conf-dir-missing"
	MultusBinDir       Verdict = "multus-bin-dir"
	MultusNetNS        Verdict = "multus-netns"
	NoExec             Verdict = "noexec"
	Missing            Verdict = "missing"
	WrongDirectory     Verdict = "wrong-directory"
	NotCarried         Verdict = "not-carried"
	ThirdParty         Verdict = "third-party"
	NotAFile           Verdict = "not-a-file"
	DanglingSymlink    Verdict = "dangling-symlink"
	EscapingSymlink    Verdict = "escaping-symlink"
	NotAProgram        Verdict = "not-a-program"
	Truncated          Verdict = "truncated"
	WrongArchitecture  Verdict = "wrong-architecture"
	Dynamic            Verdict = "dynamic"
	NotExecutable      Verdict = "not-executable"
	DoesNotRun         Verdict = "does-not-run"
	Shadowed           Verdict = "shadowed"
	UnsupportedVersion Verdict = "cni-version"
	NoKernelDriver     Verdict = "no-kernel-driver"
	NoDHCPDaemon       Verdict = "no-dhcp-daemon"
	VMNeedsBridge      Verdict = "vm-needs-bridge"
	CiliumBackup       Verdict = "cilium-backup"
	MultusConfAbsent   Verdict = "multus-conf-absent"
	MultusNotFirst     Verdict = "multus-not-first"
	SecondWriter       Verdict = "second-writer"
)

// Rule explains a verdict.
type Rule struct {
	Verdict Verdict
	// Warning says that attachments work all the same, for now.
	Warning bool
	// Meaning and Remedy are a sentence each.
	Meaning, Remedy string
}

// Rules returns every verdict, most basic first.
func Rules() []Rule {
	return rules
}

var rules = []Rule{
	{BadJSON, false, "the configuration is not JSON; line and column are given", "correct the text at that place"},
	{BadConfig, false, "the configuration is JSON, but the runtime refuses it or cannot use it", "correct the key that is named"},
	{NoConfig, false, "the attachment has no configuration, and no file has its name", "write the configuration into spec.config"},
	{BinDirMissing, false, "a directory of plugins is not there", "name the node's own bin directory, or let the installer create it"},
	{ConfDirMissing, false, "the configuration directory is not there, or is empty", "name the node's own configuration directory, or start the CNI that writes it"},
	{MultusBinDir, false, "Multus's binDir exists on the node only, or in Multus's container only", "mount the directory into Multus's container at the same path"},
	{MultusNetNS, false, "Multus's container lacks the directory in which the distribution has the pods' network namespaces", "mount that directory instead of /run/netns"},
	{NoExec, false, "the bin directory's file system is mounted noexec: nothing runs from it", "remount it with exec, or use the distribution's bin directory"},
	{Missing, false, "no directory has the plugin, and our plugin set brings it", "stage it"},
	{WrongDirectory, false, "the plugin is in a directory that is not searched", "search that directory too, or stage the plugin"},
	{NotCarried, false, "no directory has the plugin, and our plugin set leaves it out for a reason", "build a payload with it, or do without"},
	{ThirdParty, false, "no directory has the plugin, and it belongs to another project", "install that project's own"},
	{NotAFile, false, "a directory, FIFO, socket or device has the plugin's name: it is passed over", "remove it, then stage the plugin"},
	{DanglingSymlink, false, "the name is a symlink that leads nowhere", "replace it by the plugin"},
	{EscapingSymlink, false, "the name resolves on the node or in Multus's container, not in both", "mount the symlink's target too, or replace it by the plugin"},
	{NotAProgram, false, "the file is neither an ELF program nor a script", "replace it by the plugin"},
	{Truncated, false, "the file is an ELF program cut short", "replace it by the plugin"},
	{WrongArchitecture, false, "the program is for another machine", "replace it by the plugin for this one"},
	{Dynamic, false, "the program needs a loader or interpreter that the node has not", "replace it by a static one"},
	{NotExecutable, false, "nobody may execute the file", "give it mode 0755"},
	{DoesNotRun, false, "the program does not answer CNI_COMMAND=VERSION as a plugin does", "read what it says; replace it by the plugin"},
	{Shadowed, false, "another copy hides the plugin that the node image or our payload brings", "remove the copy that hides it"},
	{UnsupportedVersion, false, "the plugin does not support the configuration's cniVersion", "use a cniVersion that it supports, or a newer plugin"},
	{NoKernelDriver, false, "the running kernel has no driver for the kind of interface", "load the module, or use a kernel that has it"},
	{NoDHCPDaemon, false, "the dhcp plugin asks a daemon that does not run on the node", "run the daemon, or use another ipam type"},
	{VMNeedsBridge, false, "a virtual machine is attached by macvlan or ipvlan, which drop the frames of the guest's own MAC address", "use a bridge on the node and type bridge"},
	{CiliumBackup, false, "Cilium has renamed other CNIs' configurations, so nobody uses them", "set cni.exclusive=false and rename them back"},
	{MultusConfAbsent, false, "no configuration calls Multus: pods get no attachment, silently", "restart Multus, which writes it"},
	{MultusNotFirst, false, "the runtime uses another configuration that sorts before Multus's", "move that configuration out of the directory"},
	{SecondWriter, true, "another configuration lies beside Multus's: while Multus restarts its own is gone, and pods created then get no attachment, silently", "let Multus be the only writer of the directory"},
}

// order is a verdict's place in what to do.
func (v Verdict) order() int {
	for i, r := range rules {
		if r.Verdict == v {
			return i
		}
	}

	return len(rules)
}

func (v Verdict) isWarning() bool {
	i := v.order()

	return i < len(rules) && rules[i].Warning
}
