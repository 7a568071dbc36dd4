// What the cluster's check runs in its pods: serve, get a URL, look up a name, write a file.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const patience = 30 * time.Second

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: probe serve ADDRESS | get URL | lookup NAME | write FILE"))
	}
	argument := os.Args[2]
	switch os.Args[1] {
	case "serve":
		http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(answer, "a pod answers")
		})
		fail(http.ListenAndServe(argument, nil))
	case "get":
		retry(func() error { return get(argument) })
	case "lookup":
		retry(func() error {
			addresses, err := net.LookupHost(argument)
			fmt.Println(addresses)
			return err
		})
	case "write":
		fail(os.WriteFile(argument, []byte("written\n"), 0o644))
	default:
		fail(fmt.Errorf("no such command: %s", os.Args[1]))
	}
}

func get(url string) error {
	client := http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

// retry forgives a server that is still starting, not one that never answers.
func retry(try func() error) {
	end := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			fail(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
