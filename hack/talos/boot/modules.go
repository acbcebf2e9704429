package boot

// earlyModules are built into Talos's kernel and modules in Debian's; Talos's init needs them.
var earlyModules = []string{"configfs", "loop", "squashfs", "overlay"}

// testModules are for the disk, the plugins, and what stands outside the node in the tests. Which of
// the drivers each Talos release has is a fact of its own; here they are all loaded.
var testModules = []string{
	"virtio_blk", "ext4",
	// Interfaces.
	"bridge", "veth", "macvlan", "ipvlan", "8021q", "vrf", "ifb", "dummy",
	// bandwidth.
	"sch_tbf", "sch_ingress", "cls_u32", "act_mirred",
	// firewall, portmap and masquerading, by iptables (its nft variant) and by nft.
	"nf_tables", "nft_compat", "nft_chain_nat", "nft_masq", "nft_nat", "nft_ct", "nft_fib_ipv4", "nft_fib_ipv6", "nft_fib_inet", "nft_numgen",
	"nf_conntrack_netlink", "xt_comment", "xt_conntrack", "xt_MASQUERADE", "xt_nat", "xt_mark", "xt_multiport", "xt_addrtype",
	"xt_tcpudp",
}
