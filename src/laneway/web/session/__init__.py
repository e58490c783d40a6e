"""Who uses the interface: sign-in, sessions, and what guards both.

A user signs in with a bearer token of the cluster, which the API server checks. From then on the
token stays in this process: the browser has a cookie with an encrypted id, which is worth nothing
once the session has ended, and the process has what belongs to the id. So a token is in no page,
URL or log, a cookie can be of any token's size, and an OIDC token can be renewed while a page is
open. Sessions end with the process.

**Requests of other sites.** A second cookie names the browser, before and after sign-in. A form
carries an HMAC over the browser and the user: it cannot be made by another site, and it outlives
the session. When a session ends while a form is open, the user signs in again in another tab, and
the same form can be sent, with or without JavaScript. A form of another user, or from before the
user signed out, is refused. A session counts only together with the browser that it began in, so
a cookie that another site on the same domain has planted changes nothing.
"""
