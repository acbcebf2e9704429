package watch

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DefaultListen is reachable for the kubelet's probes where the pod is on the host's network.
const DefaultListen = "127.0.0.1:9797"

// Address is where to listen.
type Address struct {
	family   int
	sockaddr unix.Sockaddr
	// fallback is for a kernel without IPv6; nil where another family would be another address.
	fallback unix.Sockaddr
	text     string
}

func (a Address) set() bool      { return a.sockaddr != nil }
func (a Address) String() string { return a.text }

// ParseAddress reads IPV4:PORT, [IPV6]:PORT, or ":PORT" for every address of the machine. Names are
// not resolved. "off" is the zero Address.
func ParseAddress(s string) (Address, error) {
	if s == "off" {
		return Address{}, nil
	}

	bad := func(why string) (Address, error) {
		return Address{}, fmt.Errorf("%q is not an address to listen at: %s; give IPV4:PORT, [IPV6]:PORT, :PORT or off", s, why)
	}

	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return bad("it has no port")
	}

	host, digits := s[:i], s[i+1:]

	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 || digits[0] == '0' {
		return bad("the port is not a number from 1 to 65535")
	}

	if v4, ok := parseIPv4(host); ok {
		return Address{family: unix.AF_INET, sockaddr: &unix.SockaddrInet4{Port: int(port), Addr: v4}, text: s}, nil
	}

	if host == "" {
		return Address{
			family: unix.AF_INET6, sockaddr: &unix.SockaddrInet6{Port: int(port)},
			fallback: &unix.SockaddrInet4{Port: int(port)}, text: s,
		}, nil
	}

	inner, bracketed := strings.CutPrefix(host, "[")
	inner, closed := strings.CutSuffix(inner, "]")

	v6, ok := parseIPv6(inner)
	if !ok || !bracketed || !closed {
		return bad("the host is no IP address")
	}

	return Address{family: unix.AF_INET6, sockaddr: &unix.SockaddrInet6{Port: int(port), Addr: v6}, text: s}, nil
}

// The parsers are ours because package net/netip would cost the installer 70 kB.

func parseIPv4(s string) (address [4]byte, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) != len(address) {
		return address, false
	}

	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil || len(part) > 1 && part[0] == '0' {
			return address, false
		}

		address[i] = byte(n)
	}

	return address, true
}

func parseIPv6(s string) (address [16]byte, ok bool) {
	front, back, short := strings.Cut(s, "::")

	head, ok := parseGroups(front, !short)
	if !ok {
		return address, false
	}

	tail, ok := parseGroups(back, true)
	if !ok {
		return address, false
	}

	n := len(head) + len(tail)
	if short && n > 14 || !short && n != 16 {
		return address, false
	}

	copy(address[:], head)
	copy(address[16-len(tail):], tail)

	return address, true
}

// parseGroups reads groups of hexadecimal digits; the last may be an IPv4 address where they are the
// end of an address.
func parseGroups(s string, last bool) (octets []byte, ok bool) {
	if s == "" {
		return nil, true
	}

	groups := strings.Split(s, ":")

	for i, group := range groups {
		if v4, ok := parseIPv4(group); ok && last && i == len(groups)-1 {
			return append(octets, v4[:]...), true
		}

		n, err := strconv.ParseUint(group, 16, 16)
		if err != nil || len(group) > 4 {
			return nil, false
		}

		octets = append(octets, byte(n>>8), byte(n))
	}

	return octets, true
}
