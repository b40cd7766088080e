"""A shop that removes old carts every hour, and whenever somebody asks for it."""

from flask import Flask, current_app

from everwhen.flask import EverwhenFlask

everwhen = EverwhenFlask()


@everwhen.every("1h", first_run="after_interval", catch_up="run_once", id="cleanup")
def cleanup() -> str:
    return f"removed the old carts of {current_app.config['SHOP']}"


def create_app() -> Flask:
    app = Flask(__name__)
    app.config.update(EVERWHEN_DATABASE="sqlite:///shop.db", EVERWHEN_NAME="shop", SHOP="Ada's teas")
    everwhen.init_app(app)

    @app.post("/cleanup")
    def clean_up_now() -> dict[str, str | None]:
        return {"result": everwhen.trigger("cleanup").wait(30).result}

    everwhen.start()
    return app
