class Endpoint:
    name = "acme"
    required_tasks = None

    def attach_router(self, app):
        @app.post("/v1/chat/completions")  # fault: endpoint-core-path
        async def chat():
            return {}

        @app.get("/v1/chat/completions")
        async def explain():
            return {}

        @app.get("/acme")  # fault: endpoint-unguarded
        async def acme():
            return {}

    async def init_state(self, engine_client, state, args):
        state.acme = engine_client
