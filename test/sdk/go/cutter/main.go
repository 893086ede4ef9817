// Command cutter is a network that breaks: a proxy between clients and the gateway that ends a client's connection
// at a chosen place of the answer, once, and lets the next one through.
//
// A request with a header Cut is cut: id=NAME&at=PLACE, form-encoded. The places are
//
//	now   while the answer is awaited, when POST /cutter/v1/cut?id=NAME says so
//	none  the answer's head has come; the client gets nothing of it
//	head  the client has the head
//	byte  the client has the head and what came of the body first
//	mark  the client has the first event with the text mark=TEXT; without events, the body up to it
//	end   the client has everything but the end of the HTTP body; the gateway has sent all
//
// The gateway sees a reset, with how=fin an orderly end. Further requests under the same id pass. GET
// /cutter/v1/await?id=NAME&requests=N answers when so many were made, with &cut=1 also when the cut was made.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of the proxy")
	upstream := flag.String("upstream", "", "address of the gateway, host:port")
	flag.Parse()
	if err := serve(*listen, *upstream); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve says where it listens and serves until it fails.
func serve(listen, upstream string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("cutter on", l.Addr())
	return http.Serve(l, newProxy(upstream))
}
