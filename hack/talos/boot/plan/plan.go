// Package plan is what the host and the machine it boots tell each other.
package plan

// Path is where the machine finds its plan, in Talos's own root file system.
const Path = "/etc/cnibake-test.json"

// Where the shapes live on a node, and what Talos mounts over /opt.
const (
	OptDir      = "/opt/cni/bin"
	ReadonlyDir = "/usr/local/lib/cni"
	UpperDir    = "/var/system/overlays/opt-diff"
	WorkDir     = "/var/system/overlays/opt-workdir"
)

// Plan tells the machine what it was booted with and what to do.
type Plan struct {
	// PluginDir is where the extension's plugins must be.
	PluginDir string   `json:"pluginDir"`
	Plugins   []Plugin `json:"plugins"`
	// Labels by path: the SELinux label that each must have.
	Labels map[string]string `json:"labels"`
	// Second is set in the boot that follows the planting of shadows.
	Second bool `json:"second"`
}

// Plugin is what a plugin must be.
type Plugin struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// TalosOwn are the names that Talos itself has in OptDir. The boot puts stand-ins there, which say
// that their version is "unknown", as Talos's own copies do.
var TalosOwn = []string{"bridge", "firewall", "flannel", "host-local", "loopback", "portmap"}

// Outcome is how a check ended.
type Outcome string

// Outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "FAIL"
)

// Result is one check, a line of JSON on the machine's second serial port.
type Result struct {
	Group   string  `json:"group"`
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"`
	Millis  int64   `json:"millis"`
}

// Done is the group of the last line, without which the results are not complete.
const Done = "done"
