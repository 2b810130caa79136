package testnet_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/testnet"
)

// A proxy before a server of one's own: a reply that is held back arrives when Heal is
// called.
func ExampleNew() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	proxy, err := testnet.New(server.Listener.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer proxy.Close()

	proxy.Hold(fault.Replies)
	reply := make(chan string)
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + proxy.Addr())
		if err != nil {
			reply <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		reply <- string(text)
	}()
	for proxy.Stats().Replies.Waiting == 0 {
		time.Sleep(time.Millisecond) // until the fault has met something
	}
	proxy.Heal(fault.Replies)
	fmt.Println(<-reply)
	// Output: hello
}

// An authority whose certificates a test's server and clients can use.
func ExampleNewCA() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ca, err := testnet.NewCA(dir)
	if err != nil {
		log.Fatal(err)
	}
	good, err := ca.Client("web")
	fmt.Println(len(good.Certificates), err)
	_, err = ca.Expired().Client("old") // to see that it is refused
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// <nil>
}
