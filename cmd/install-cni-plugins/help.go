package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/cnibake/cnibake/profiles/distro"
)

func runHelp(_ context.Context, _ environment, _ []string, out io.Writer) error {
	_, err := fmt.Fprintf(out, help, strings.Join(distro.Names(), " "))

	return err
}

const help = `install-cni-plugins puts CNI plugins into a node's bin directory.

  install-cni-plugins [install]   stage the plugins that are not there or not right
  install-cni-plugins verify      compare the directory with the plugins' manifest
  install-cni-plugins uninstall   take back what install wrote
  install-cni-plugins watch       keep them there: restore what goes missing, answer probes
  install-cni-plugins unshadow    find what hides plugins baked into the node image
  install-cni-plugins doctor      say why attachments fail, and what to do
  install-cni-plugins version

Flags, each also as an environment variable (--state-dir is CNI_INSTALL_STATE_DIR):

  --source DIR       the plugins (default /cni-plugins)
  --dest DIR         the node's bin directory (default /host/opt/cni/bin)
  --only a,b         these plugins and no others
  --skip a,b         all but these; SKIP_CNI_BINARIES adds to it
  -o text|json       form of the results

install
  --update POLICY    always   replace every file that is not right (default)
                     owned    only what an earlier install wrote and nobody changed
                     missing  write absent names only (UPDATE_CNI_BINARIES other than true)
  --distro NAME      leave alone what this distribution ships itself; one of
                     %s
  --take-over        replace those names too
  --exact            take no other build of the same upstream release for right
  --state-dir DIR    where the record and backups for uninstall are kept
                     (default /var/lib/cni-plugins; it is not created)
  --create           make the bin directory where it is missing
  --strict           exit 1 when a plugin could not be staged
  --dry-run          say what would be done

verify     --upper DIR  --distro NAME  --take-over  --exact
uninstall  --state-dir DIR  --dry-run
watch      --state-dir DIR  --distro NAME
  --interval TIME    look at least that often, besides at every change (default 5m)
  --restore-altered  restore altered plugins too, not only missing ones
  --listen ADDR      /livez, /readyz and /metrics over HTTP (default 127.0.0.1:9797;
                     "off" for none)
unshadow   --upper DIR  --distro NAME  --yes
  --upper DIR        the upper directory of the overlay that the bin directory is on
                     (Talos: /var/system/overlays/opt-diff)
  --yes              remove what was found; effective after a reboot

doctor     --source DIR  --upper DIR  --distro NAME  -o text|json
  --nad FILE|-       attachments, as kubectl get -o json prints them, or CNI configurations;
                     DaemonSets, ConfigMaps and VirtualMachines among them are used too
  --root DIR         the node's root (default /host where there is one, else /)
  --bin-dir A,B      where the runtime looks for plugins, in its order (default: the
                     distribution's, /opt/cni/bin)
  --conf-dir DIR     the runtime's configurations (default likewise, /etc/cni/net.d)
  --multus-config FILE  Multus's daemon-config.json
  --multus-path A,B  the CNI_PATH of Multus's environment
  --multus-root DIR  the root of Multus's container (/proc/PID/root)
  --vm a,b|all       attachments that virtual machines use
  --strict           exit 1 on warnings too

Exit codes: 0 good, 1 the answer is no, 2 could not do it. Without --strict, install exits 0
whatever the node's state is, so that no pod waits for it; failures are on stderr and in
/dev/termination-log.
`
