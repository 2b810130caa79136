// Package httpfence carries fencing tokens over HTTP. The client's Transport sends the token of
// the hold that a request is made in. The server's Handler refuses a request whose token is
// outbid, with the status 409 and both tokens in the body, and Check makes that an error of the
// client again.
//
//	client := &http.Client{Transport: &httpfence.Transport{}} // and requests with the context of a hold
//	err = httpfence.Check(response)                           // errors.Is(err, fence.ErrStale)
//
//	http.Handle("/accounts/{name}", httpfence.Handler(accounts, marks, byName, nil))
//
// The rules are those of package fence: the first request of each hold must show its token,
// even if it only reads.
//
// # One step
//
// While a request of an exclusive hold is served, Handler serves no other request for the same
// resource, and only other readers next to one of a shared hold. So the check and the work are
// one step if one process serves the resource. If several processes do, Handler alone is not
// enough: a request can be accepted by one of them and do its work after a newer one has been
// served by another. Check the token again where the data is, in the step that reads or writes
// it: Access returns the token of the request that is served, and Refuse writes the response to
// an error of such a check. In a transaction:
//
//	t, mode, _ := httpfence.Access(ctx)
//	err = sqlfence.In(tx, sqlfence.PostgreSQL).Touch(ctx, sqlfence.Access{Name: name, Token: t, Mode: mode})
//	if httpfence.Refuse(w, name, err) {
//		return
//	}
//
// A request holds its resource until its body is read. A client that is stopped while it sends
// would keep later ones waiting: bound that with http.Server.ReadTimeout.
//
// # Marks
//
// A Marks keeps the marks of the resources by their names. It must not lose them while it is
// used: a mark that is forgotten lets stale holds in. That is why this package has no Marks in
// memory. One without a bound would grow with every name, one with a bound would forget, and
// both would be empty after a restart. The Handler itself keeps in memory only what is being
// served. Delete the mark of a resource together with the resource.
//
// # The format
//
// A token travels in the header Fairlock-Token, as decimal digits. The header Fairlock-Mode is
// "shared" for readers, and absent otherwise. A refusal has the type application/problem+json
// of RFC 9457 with the members resource, token, mode and seen; tokens are strings there,
// because not every reader of JSON takes 64 bits.
package httpfence
