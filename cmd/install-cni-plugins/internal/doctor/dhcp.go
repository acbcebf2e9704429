package doctor

import (
	"cmp"
	"encoding/json"

	"golang.org/x/sys/unix"
)

// examineDHCP looks for the daemon that the dhcp plugin asks.
func (d *doctor) examineDHCP(to *[]Finding, c *call) {
	var conf struct {
		IPAM struct{ DaemonSocketPath string }
	}

	_ = json.Unmarshal(c.raw, &conf)
	socket := cmp.Or(conf.IPAM.DaemonSocketPath, "/run/cni/dhcp.sock")

	if _, err := d.node.resolve("/run"); err != nil {
		return // not to be seen from here
	}

	if f, err := d.node.resolve(socket); err == nil && f.mode() == unix.S_IFSOCK {
		return
	}

	d.report(to, NoDHCPDaemon, todo("Run \"dhcp daemon\" on every node, as a service; or use ipam static or host-local, or none and let the guest ask a DHCP server."),
		"no daemon listens on %s, which the dhcp plugin asks", socket)
}
