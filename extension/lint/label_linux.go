package lint

import "golang.org/x/sys/unix"

// labelRecord returns the SELinux label of a file as the record an archive would keep it in.
func labelRecord(name string) map[string]string {
	buffer := make([]byte, 256)

	n, err := unix.Lgetxattr(name, "security.selinux", buffer)
	if err != nil || n <= 0 {
		return nil
	}

	label := string(buffer[:n])
	if label[n-1] == 0 {
		label = label[:n-1]
	}

	return map[string]string{selinuxRecord: label}
}
