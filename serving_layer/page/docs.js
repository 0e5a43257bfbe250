// The API's document, shown by the script that a pinned package ships; nothing is asked of any other host.
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#document", deepLinking: true, validatorUrl: null });
