package mysqltest

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Options are the settings of a server. Nil is the same as the zero value: one server that
// starts fast and whose data is in memory.
type Options struct {
	// Program is the path of mariadbd. The program mariadb-install-db must be in its folder,
	// in its sibling bin, or in PATH. "" means what Find returns.
	Program string

	// Config are settings of the server, as in my.cnf. They override those of this package,
	// such as innodb_buffer_pool_size 16M and max_connections 500. The settings "datadir",
	// "port", "socket" and "log_error" cannot be used.
	Config map[string]string

	// Disk keeps the data on the disk. False keeps it in memory if /dev/shm has at least 1
	// GiB free.
	Disk bool

	// StartTimeout is how long a start may show no progress: no line in the server's log.
	// The time in which the machine did not let this process run does not count. A start
	// may take ten times as long in all. 0 means one minute.
	StartTimeout time.Duration
}

// ours are the settings that only this package may choose.
var ours = map[string]bool{"datadir": true, "port": true, "socket": true, "log_error": true}

// complete returns a copy with the defaults filled in, or what is wrong.
func (o *Options) complete() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.StartTimeout = cmp.Or(opts.StartTimeout, time.Minute)
	if opts.StartTimeout < 0 {
		return opts, fmt.Errorf("mysqltest: options: negative start timeout %v", opts.StartTimeout)
	}
	config := map[string]string{}
	for name, value := range opts.Config {
		if !settable(name) || strings.ContainsAny(value, "\n\r\x00") {
			return opts, fmt.Errorf("mysqltest: options: setting %q=%q, want a name and one line", name, value)
		}
		name = strings.ReplaceAll(name, "-", "_") // they mean the same
		if ours[name] {
			return opts, fmt.Errorf("mysqltest: options: the setting %q is the server's own", name)
		}
		config[name] = value
	}
	opts.Config = config
	var err error
	if opts.Program == "" {
		opts.Program, err = Find()
	} else {
		opts.Program, err = absolute(opts.Program)
	}
	return opts, err
}

// settable reports whether a text can be the name of a setting.
func settable(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// small are settings that change what the data directory has in it, so mariadb-install-db gets
// them too. Without them a server takes 200 MB.
func small() map[string]string {
	return map[string]string{
		"innodb_log_file_size":        "4M",
		"innodb_data_file_path":       "ibdata1:3M:autoextend",
		"innodb_temp_data_file_path":  "ibtmp1:3M:autoextend",
		"innodb_autoextend_increment": "1",
		"innodb_undo_tablespaces":     "0",
		"innodb_buffer_pool_size":     "16M",
		"innodb_use_native_aio":       "0", // the kernel has few, for all processes together
		"innodb_buffer_pool_filename": "ib_buffer_pool",
		"innodb_stats_persistent":     "0",
		"skip_name_resolve":           "1",
	}
}

// configuration returns the content of my.cnf.
func (s *Server) configuration() string {
	settings := small()
	maps.Copy(settings, map[string]string{
		"datadir":                             s.data,
		"socket":                              s.Socket(),
		"port":                                portOf(s.addr),
		"bind_address":                        "127.0.0.1",
		"max_connections":                     "500",
		"innodb_buffer_pool_load_at_startup":  "0",
		"innodb_buffer_pool_dump_at_shutdown": "0",
	})
	maps.Copy(settings, s.opts.Config)
	return lines(settings)
}
